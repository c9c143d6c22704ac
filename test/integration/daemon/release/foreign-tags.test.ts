import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const key = sampleKey();
const TAG = 'registry.example.com/shared/pause:3';

const factory = folderForEach();
let node: DaemonHarness;

beforeEach(async () => {
  node = await createDaemonHarness({ keys: [key] });
  await node.start();
});

/** A release `1.N.0` with an image of its own and one of this seed under {@link TAG}. */
const release = (name: string, seed: string | undefined, minor = 0): Promise<SampleBundle> =>
  makeSampleBundle({
    dir: mkdtempSync(join(factory, 'made-')),
    name,
    keys: [key],
    version: `1.${minor}.0`,
    sequence: minor + 1,
    images: [
      { reference: `registry.example.com/${name}/app:1.${minor}.0`, image: sampleImage({ seed: `${name}-${minor}` }) },
      ...(seed === undefined ? [] : [{ reference: TAG, image: sampleImage({ seed }) }]),
    ],
  });
const entry = (name: string, report = node.report()) =>
  report.bundles.find((one) => `${one.name}@${one.version}` === name);
const untilPhase = (name: string, ...phases: readonly string[]) =>
  node.until((report) => phases.includes(entry(name, report)?.phase ?? '') && report.operation === 'idle');
const untilHeld = (name: string) =>
  node.until((report) => entry(name, report)?.reason?.code === 'engine/tag-of-other-stream');
const plug = async (...bundles: readonly SampleBundle[]) => {
  if (node.report().media.some(({ medium }) => medium.endsWith('/stick'))) {
    await node.takeOut();
  }
  node.plug(...bundles.map(({ path }) => path));
};
const started = () => node.until(() => true);
/** The digest that the tag names in the runtime. */
const tagged = async () =>
  (await node.images()).find(({ repoTags }) => repoTags.includes(TAG))?.repoDigests.map((name) => name.split('@')[1]);
const digestIn = ({ contents }: SampleBundle) => contents.images.find(({ tags }) => tags.includes(TAG))?.digest;
const giveUp = (bundle: string, removeImages: boolean) =>
  node.engine.commands.unpin({ bundle, removeImages, force: true }, AbortSignal.timeout(10_000));

describe('a tag that two streams name', () => {
  it('goes to one of two releases that come at the same time, and stays there, over a restart', async () => {
    await started();
    const both = { alpha: await release('alpha', 'one'), beta: await release('beta', 'two') };
    await plug(both.alpha, both.beta);
    // An activation that has begun holds the tag already.
    const report = await node.until(
      ({ bundles, operation }) =>
        operation === 'idle' &&
        bundles.some(({ phase }) => phase === 'activated') &&
        bundles.some(({ phase, reason }) => phase === 'ready' && reason?.code === 'engine/tag-of-other-stream'),
    );
    const holder = report.bundles.find(({ phase }) => phase === 'activated')?.name === 'alpha' ? 'alpha' : 'beta';
    const other = holder === 'alpha' ? 'beta' : 'alpha';
    expect(entry(`${other}@1.0.0`)?.phase).toBe('ready');
    expect(entry(`${other}@1.0.0`)?.reason?.message).toContain(
      `tag ${TAG} belongs to ${holder}@1.0.0. Stream ${holder} holds it for another image, so stream ${other} may not take it`,
    );
    expect(await tagged()).toEqual([digestIn(both[holder])]);
    await node.restart();
    await untilHeld(`${other}@1.0.0`);
    await node.rounds();
    expect(await tagged()).toEqual([digestIn(both[holder])]);
    // Once the holder is given up, nothing holds the other one.
    await giveUp(`${holder}@1.0.0`, false);
    await untilPhase(`${other}@1.0.0`, 'activated');
    expect(await tagged()).toEqual([digestIn(both[other])]);
  });

  it('is not taken from the fallback of the other stream, whose present release does not name it', async () => {
    await started();
    const fallback = await release('alpha', 'one');
    await plug(fallback);
    await untilPhase('alpha@1.0.0', 'activated');
    node.engine.commands.prove({ bundle: 'alpha@1.0.0' });
    await plug(await release('alpha', undefined, 1));
    await untilPhase('alpha@1.1.0', 'activated');
    node.engine.commands.prove({ bundle: 'alpha@1.1.0' });
    await untilPhase('alpha@1.0.0', 'superseded');
    await plug(await release('beta', 'two'));
    await untilHeld('beta@1.0.0');
    expect(entry('beta@1.0.0')?.reason?.message).toContain('belongs to alpha@1.0.0');
    await node.rounds();
    expect(await tagged()).toEqual([digestIn(fallback)]);
  });

  it('is shared by images with the same digest, and outlives the release that was first', async () => {
    await started();
    const [first, second] = [await release('alpha', 'pause'), await release('beta', 'pause')];
    await plug(first, second);
    await untilPhase('alpha@1.0.0', 'activated');
    await untilPhase('beta@1.0.0', 'activated');
    expect(await tagged()).toEqual([digestIn(first)]);
    await giveUp('alpha@1.0.0', true);
    await untilPhase('alpha@1.0.0', 'retired');
    await expect.poll(async () => (await node.images()).length).toBe(2);
    await node.rounds();
    expect(await tagged()).toEqual([digestIn(second)]);
    const image = (await node.images()).find(({ repoTags }) => repoTags.includes(TAG));
    expect(image?.pinned).toBe(true);
  });

  it('may be moved by the next release of its own stream, and is then held by that one too', async () => {
    await started();
    const [first, next] = [await release('alpha', 'one'), await release('alpha', 'two', 1)];
    await plug(first);
    await untilPhase('alpha@1.0.0', 'activated');
    await plug(next);
    await untilPhase('alpha@1.1.0', 'activated');
    expect(await tagged()).toEqual([digestIn(next)]);
    // The digest of the present release is not enough while the one before holds another one.
    await plug(await release('beta', 'two'));
    await untilHeld('beta@1.0.0');
    expect(entry('beta@1.0.0')?.reason?.message).toContain('belongs to alpha@1.0.0');
  });
});
