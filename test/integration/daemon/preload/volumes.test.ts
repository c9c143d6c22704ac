import { readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { makeSpreadBundle } from '../../../support/bundles/spread-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const MIB = 1024 * 1024;
let harness: DaemonHarness;
const factory = folderForEach();

beforeEach(async () => {
  harness = await createDaemonHarness();
});

const makeVolumes = (volumeBytes: number) => makeSpreadBundle({ folder: factory, key: harness.key, volumeBytes });

const isDone = () => harness.until(({ bundles }) => bundles[0]?.phase === 'activated');

describe('a bundle spread over several sticks', () => {
  it.each([[[0, 1, 2]], [[0, 2, 1]], [[1, 0, 2]], [[1, 2, 0]], [[2, 0, 1]], [[2, 1, 0]]])(
    'is taken through one port in the order %j, each stick once',
    async (order) => {
      const volumes = await makeVolumes(4.5 * MIB);
      expect(volumes).toHaveLength(3);
      await harness.start();
      for (const at of order.slice(0, -1)) {
        harness.plug(volumes[at] ?? '');
        const wanted = await harness.until(
          ({ status, media, bundles }) =>
            media.some(({ medium, bundles: count }) => medium.endsWith('/stick') && count === 1) &&
            bundles[0]?.hold === 'media' &&
            status.includes('Plug in the stick that carries the rest'),
        );
        expect(wanted.status).toMatch(/lacks \d+ blobs? on .*\. Plug in the stick that carries the rest/);
        harness.unplug();
        // The first report without the stick may still have the reason of the round before.
        const without = await harness.until(
          ({ media, status }) =>
            !media.some(({ medium }) => medium.endsWith('/stick')) && status.includes('still lacks'),
        );
        expect(without.status).toMatch(
          /still lacks \d layers? \(.*\)\. Plug in the stick that carries the rest\. The first layer is sha256:/,
        );
      }
      harness.plug(volumes[order.at(-1) ?? 0] ?? '');
      const done = await isDone();
      expect(done.bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
      await expect.poll(() => readdirSync(join(harness.base, 'state/blobs/layers')), { timeout: 60_000 }).toEqual([]);
    },
  );

  it('is taken from two ports at once', async () => {
    const [first = '', second = ''] = await makeVolumes(7 * MIB);
    await harness.start(second);
    await harness.until(({ bundles, status }) => bundles[0]?.hold === 'media' && status.includes('carries the rest'));
    renameSync(first, join(harness.incoming, 'ocp'));
    expect((await isDone()).bundles[0]?.images).toEqual({ total: 3, present: 3, pinned: 3 });
  });
});
