import { cpSync, renameSync } from 'node:fs';
import { basename, join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { coded } from '../../../support/matching.ts';

const { signal } = new AbortController();
let harness: DaemonHarness;
const factory = folderForEach();

beforeEach(async () => {
  harness = await createDaemonHarness();
});

it('a bundle directory that is loaded by its path is preloaded, and forgotten when it vanishes', async () => {
  const bundle = await harness.make();
  await harness.start();
  await harness.until(({ operation }) => operation === 'idle');
  expect(await harness.daemon().media.load(bundle.path, signal)).toBe(bundle.path);
  const done = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
  expect(done.bundles[0]?.media).toEqual([bundle.path]);
  renameSync(bundle.path, `${bundle.path}-away`);
  await harness.until(({ media }) => media.every(({ medium }) => medium !== bundle.path));
  await harness.stop();
  renameSync(`${bundle.path}-away`, bundle.path);
  await harness.start();
  const again = await harness.until(({ bundles }) => bundles.length === 1);
  expect(again.media.map(({ medium }) => medium)).not.toContain(bundle.path);
});

it('what is plugged in is read again when it is loaded by its path, and listed once', async () => {
  const bundle = await harness.make();
  await harness.start();
  await harness.load(bundle.path);
  const stick = join(harness.base, 'stick');
  const { media } = harness.daemon();
  for (const path of [stick, `${stick}/`, join(stick, 'stickpin', basename(bundle.path)), harness.incoming])
    expect(await media.load(path, signal)).toBe(path.startsWith(stick) ? stick : harness.incoming);
  await harness.rounds();
  const seen = await harness.until(({ media: all }) => all.every(({ state }) => state === 'read'));
  expect(seen.media.filter(({ medium }) => medium.startsWith(stick)).map(({ medium }) => medium)).toEqual([stick]);
  expect(seen.bundles.map((one) => one.media)).toEqual([[stick]]);
});

it('a loaded directory with stickpin/ is judged as a stick is: an unknown key is refused', async () => {
  const bundle = await makeSampleBundle({ dir: factory, keys: [sampleKey('stranger')] });
  const share = join(factory, 'share');
  cpSync(bundle.path, join(share, 'stickpin/ocp'), { recursive: true });
  await harness.start();
  await expect(harness.daemon().media.load(share, signal)).rejects.toMatchObject({
    message: expect.stringContaining('still starting'),
  });
  await harness.until(({ operation }) => operation === 'idle');
  await harness.daemon().media.load(share, signal);
  const seen = await harness.until(({ rejected }) => rejected.length > 0);
  expect(seen.rejected[0]).toMatchObject({ medium: share, path: 'stickpin/ocp' });
  await expect(harness.daemon().media.load('/dev/sdb1', signal)).rejects.toMatchObject(
    coded('media/load', 'media.detect is false'),
  );
});
