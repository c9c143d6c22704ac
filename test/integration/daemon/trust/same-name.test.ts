import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

let harness: DaemonHarness;
const factory = folderForEach();

beforeEach(async () => {
  harness = await createDaemonHarness();
});

/** `ocp 4.13.7` with one image under the same tag, whose content `seed` makes. */
const make = (seed: string, sequence: number): Promise<SampleBundle> =>
  harness.make({
    dir: join(factory, seed),
    sequence,
    schedule: 'manual',
    images: [{ reference: 'quay.example.com/ocp/app:4.13.7', image: sampleImage({ seed }) }],
  });
const plugBoth = async (one: SampleBundle, other: SampleBundle): Promise<void> => {
  await harness.start(one.path);
  renameSync(other.path, join(harness.incoming, 'ocp'));
};

it('two bundles with the same name, version and sequence: one is adopted, the other one is shown with the reason', async () => {
  const [one, other] = [await make('one', 1), await make('other', 1)];
  await plugBoth(one, other);
  const seen = await harness.until(({ bundles, rejected }) => bundles[0]?.phase === 'ready' && rejected.length === 1);
  const taken = seen.bundles[0]?.bundleId === one.bundleId ? one : other;
  expect(seen.bundles).toHaveLength(1);
  expect(seen.rejected[0]?.reason.code).toBe('bundle/sequence');
  expect(seen.rejected[0]?.reason.message).toMatch(
    /ocp 4\.13\.7 has the same sequence 1 as ocp 4\.13\.7\. Their digests are sha256:/,
  );
  expect((await harness.images()).flatMap(({ repoDigests }) => repoDigests)).toEqual(
    taken.contents.images.map(({ reference }) => reference),
  );
});

it('two bundles with the same name and version and other sequences: both are loaded, and activate needs the digest', async () => {
  const [one, other] = [await make('one', 1), await make('other', 2)];
  await plugBoth(one, other);
  const isReady = (bundle: SampleBundle) => (report: { bundles: readonly { bundleId: string; phase: string }[] }) =>
    report.bundles.some(({ bundleId, phase }) => bundleId === bundle.bundleId && phase === 'ready');
  await harness.until((report) => isReady(one)(report) && isReady(other)(report));
  const { engine } = harness;
  await expect
    .poll(() => harness.statuses.at(-1))
    .toMatch(
      /: ocp 4\.13\.7 \(sha256:[0-9a-f]{12}…\) is loaded: .*To activate it: 'stickpin activate sha256:[0-9a-f]{12}'\./,
    );
  expect(() => engine.commands.activate({ bundle: 'ocp@4.13.7' })).toThrow(
    /2 bundles here are called ocp@4\.13\.7: name the one you mean by its digest, sha256:[0-9a-f]{64} \(sequence [12]\) or sha256:/,
  );
  engine.commands.activate({ bundle: one.bundleId });
  const done = await harness.until(({ bundles }) => bundles.some(({ phase }) => phase === 'activated'));
  expect(done.bundles.filter(({ phase }) => phase === 'activated').map(({ bundleId }) => bundleId)).toEqual([
    one.bundleId,
  ]);
  const tagged = (await harness.images()).filter(({ repoTags }) => repoTags.length > 0);
  expect(tagged.flatMap(({ repoDigests }) => repoDigests)).toContain(one.contents.images[0]?.reference);
  expect(tagged).toHaveLength(1);
});
