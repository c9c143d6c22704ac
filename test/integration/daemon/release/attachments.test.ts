import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { createBundle } from '../../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../../src/factory/create-options.ts';
import { parseAttachmentRequest } from '../../../../src/factory/payload/attachments.ts';
import { sampleCreateOptions } from '../../../support/bundles/create-options.ts';
import { hostArch } from '../../../support/bundles/sample-bundle.ts';
import { digestOf, sampleImage, sampleLayer, writeOciLayout } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createStickGate, type StickGate } from '../../../support/daemon/stick-gate.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { seededRandom } from '../../../support/seeded-random.ts';

const MIB = 1024 * 1024;
let node: DaemonHarness;
const dir = folderForEach();
let gate: StickGate;
beforeEach(async () => {
  gate = createStickGate();
  node = await createDaemonHarness({ watchBundle: gate.watchBundle });
  await node.start();
});

/** A file of so many MiB that differ. */
function file(name: string, mebibytes: number): { readonly path: string; readonly bytes: Buffer } {
  const random = seededRandom(mebibytes);
  const bytes = Buffer.concat(Array.from({ length: mebibytes }, () => Buffer.alloc(MIB, `${name} ${random()}`)));
  const path = join(dir, name);
  writeFileSync(path, bytes);
  return { path, bytes };
}

/** A bundle of one image with a layer of 1 MiB. */
function make(out: string, attach: readonly string[], more: Partial<CreateOptions> = {}) {
  const layout = join(dir, 'layout');
  mkdirSync(layout, { recursive: true });
  const layers = [sampleLayer({ seed: 'base', sizeBytes: MIB })];
  writeOciLayout(layout, [{ image: sampleImage({ seed: 'a', architecture: hostArch, layers }) }]);
  const options = sampleCreateOptions(join(dir, out), [`quay.example.com/a:1=oci:${layout}`], {
    arch: hostArch,
    attachments: attach.map(parseAttachmentRequest),
    keys: [node.key.privateKey],
    ...more,
  });
  return createBundle(options, new AbortController().signal);
}

const installed = (version: string, name: string) => readFileSync(join(node.base, 'state/releases/ocp', version, name));

async function untilLaid(version: string, { path, bytes }: ReturnType<typeof file>): Promise<void> {
  await eventually(
    () => expect(digestOf(installed(version, path.slice(dir.length + 1)))).toBe(digestOf(bytes)),
    60_000,
  );
}

it.each(['ocp', 'ocp.stickpin.tar'])(
  'an attachment in %s continues from the same byte after its stick was removed',
  async (out) => {
    const notes = file('notes', 6);
    const digest = digestOf(notes.bytes);
    const { path } = await make(out, [notes.path]);
    gate.hold(digest, 4 * MIB);
    node.plug(path);
    await gate.reached();
    node.unplug();
    const part = join(node.base, 'state/blobs', `.${hexOf(digest)}.part`);
    await node.until(({ status }) => status.startsWith('IDLE: No bundle yet.'));
    const startByte = statSync(part).size;
    expect(startByte).toBeGreaterThanOrEqual(3 * MIB);
    gate.release();
    node.plugAgain();
    await untilLaid('4.13.7', notes);
    expect(gate.starts(digest)).toEqual([0, startByte]);
    expect(readdirSync(join(node.base, 'state/blobs')).filter((name) => name.endsWith('.part'))).toEqual([]);
  },
);

it('an attachment is read from the volume that has it, in any order of the sticks', async () => {
  const files = [file('one', 3), file('two', 4)];
  const made = await make(
    'volumes',
    files.map(({ path }) => path),
    { volumeBytes: 5 * MIB },
  );
  expect(made.volumes).toBe(2);
  for (const volume of ['2', '1']) {
    node.plug(join(made.path, volume));
    await eventually(() =>
      expect(
        files.some(({ bytes }) => {
          const name = hexOf(digestOf(bytes));
          const isHere = readdirSync(join(made.path, volume, 'blobs/sha256')).includes(name);
          return isHere && readdirSync(join(node.base, 'state/blobs/sha256')).includes(name);
        }),
      ).toBe(true),
    );
    if (volume === '2') node.unplug();
  }
  await node.until(({ bundles }) => bundles[0]?.phase === 'activated');
  for (const one of files) await untilLaid('4.13.7', one);
});

it('an attachment is part of a delta even if the base had it already', async () => {
  const [kept, added] = [file('kept', 3), file('added', 4)];
  const base = await make('base', [kept.path]);
  const more = { version: '4.13.8', sequence: 2, base: base.path };
  const delta = await make('delta', [kept.path, added.path], more);
  node.plug(base.path);
  await untilLaid('4.13.7', kept);
  node.unplug();
  node.plug(delta.path);
  for (const one of [kept, added]) await untilLaid('4.13.8', one);
  expect(gate.starts(digestOf(kept.bytes))).toEqual([0]);
  expect(gate.starts(digestOf(added.bytes))).toEqual([0]);
});
