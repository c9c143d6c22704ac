import { cpSync, mkdirSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { flipByte } from '../../../support/files/flip-byte.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';

const MIB = 1024 * 1024;
const factory = folderForEach();

/** Ports for two sticks: each is plugged in when it is renamed to that name. */
const twoPorts = (): SettingsOverrides => ({ media: { directories: [join(factory, 'left'), join(factory, 'right')] } });
/** So that nothing is pulled before both sticks were read. */
const approvedFirst = (): SettingsOverrides => ({ ...twoPorts(), trust: { require: 'both' } });

const makeBundle = (harness: DaemonHarness, version: string): Promise<SampleBundle> =>
  harness.make({
    version,
    images: ['etcd', 'api'].map((name) => ({
      reference: `quay.example.com/ocp/${name}:${version}`,
      image: sampleImage({
        seed: `${name}-${version}`,
        layers: [`${name}-1`, `${name}-2`].map((seed) =>
          sampleLayer({ seed: `${seed}-${version}`, sizeBytes: 2 * MIB }),
        ),
      }),
    })),
  });

/**
 * A stick with a copy of the bundle in which each of `damaged` has one wrong byte in its middle.
 */
function makeStick(bundle: SampleBundle, name: string, damaged: readonly Digest[]): void {
  const copy = join(factory, `${name}-prepared/stickpin`, basename(bundle.path));
  mkdirSync(join(copy, '..'), { recursive: true });
  cpSync(bundle.path, copy, { recursive: true });
  for (const digest of damaged) flipByte(join(copy, 'blobs/sha256', hexOf(digest)));
}
const plug = (name: string) => renameSync(join(factory, `${name}-prepared`), join(factory, name));

const isDone = ({ bundles, operation }: StatusReport) =>
  bundles[0]?.phase === 'activated' && operation === 'idle' && bundles[0].images.pinned === 2;

async function expectReadyInSpiteOfDamage(harness: DaemonHarness, version: string): Promise<void> {
  const bundle = await makeBundle(harness, version);
  const damaged = bundle.contents.layers.slice(1).map(({ digest }) => digest);
  makeStick(bundle, 'left', damaged);
  makeStick(bundle, 'right', []);
  await harness.start();
  for (const name of ['left', 'right']) {
    plug(name);
    await harness.until(({ media }) => media.some(({ medium, bundles }) => medium.endsWith(name) && bundles === 1));
  }
  harness.engine.commands.approve({ bundle: bundle.bundleId });
  await harness.until(isDone, 45_000);
  const told = harness.log.lines.filter(({ message }) => / is damaged on /.test(message));
  const messages = told.map(({ message }) => message).join('\n');
  expect(messages).toContain(`is damaged on ${join(factory, 'left')} (its`);
  expect(messages).toContain(
    `It is taken from ${join(factory, 'right')} instead; copy ocp ${version} to ${join(factory, 'left')} again.`,
  );
}

describe('a bundle of which one stick has damaged blobs and another one good ones', () => {
  let harness: DaemonHarness;

  it('is loaded without a person', async () => {
    harness = await createDaemonHarness({ settings: approvedFirst() });
    await expectReadyInSpiteOfDamage(harness, '4.13.7');
  });

  it('is loaded when the good one comes after the damaged one has failed', async () => {
    harness = await createDaemonHarness({ settings: twoPorts() });
    const bundle = await makeBundle(harness, '4.13.7');
    const perImage = bundle.contents.images.flatMap(
      ({ layers }) => bundle.contents.layers[layers[0] ?? -1]?.digest ?? [],
    );
    expect(perImage).toHaveLength(2);
    makeStick(bundle, 'left', perImage);
    makeStick(bundle, 'right', []);
    plug('left');
    await harness.start();
    const held = await harness.until(({ bundles }) => bundles[0]?.hold === 'media');
    expect(held.status).toMatch(
      /\(M-12\): ocp 4\.13\.7 needs an undamaged copy\. Plug in another copy of it\. Copy the bundle to a stick again/,
    );
    const before = harness.log.lines.length;
    plug('right');
    await harness.until(isDone);
    expect(harness.log.lines.slice(before).filter(({ message }) => / is damaged /.test(message))).toEqual([]);
  });

  it('is loaded although each of them has another blob damaged', async () => {
    harness = await createDaemonHarness({ settings: twoPorts() });
    const bundle = await makeBundle(harness, '4.13.7');
    const [first, second] = bundle.contents.layers.map(({ digest }) => digest);
    makeStick(bundle, 'left', first === undefined ? [] : [first]);
    makeStick(bundle, 'right', second === undefined ? [] : [second]);
    plug('left');
    plug('right');
    await harness.start();
    await harness.until(isDone);
  });
});

describe.runIf(have('root', 'mmdebstrap'))('damaged blobs on one of two sticks', () => {
  it.each([
    ['containerd', '4.15.1', () => createContainerdNode({ settings: approvedFirst() })],
    ['the CRI-O double', '4.15.2', () => createCrioNode(approvedFirst())],
  ])('with %s: all images are loaded without help from a person', async (_runtime, version, createNode) => {
    await expectReadyInSpiteOfDamage((await createNode()).harness, version);
  });
});
