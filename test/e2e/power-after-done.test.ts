import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { folderForAll } from '../support/files/temporary-folder.ts';
import { describeMachine } from './machine/describe-machine.ts';
import { startInstalled } from './machine/product/install-package.ts';
import { stickpinOn } from './machine/product/node.ts';
import { makeStick } from './machine/qemu/stick.ts';

const MIB = 1024 * 1024;
const SNAPSHOTS = '/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots';
/** In place of sync(1): the daemon finds it first. */
const NO_SYNC = '/usr/local/bin/sync';

/** `.ci/deep` sets the minutes; else so many cuts are made. */
const MINUTES = Number(process.env.STICKPIN_TEST_CUT_MINUTES ?? 0);
const CUTS = 3;
const LONGEST_WAIT_MS = 15_000;

/**
 * A person takes the stick away as soon as STATUS says `DONE`, and the power fails. containerd
 * brings no file of a snapshot to the disk. The kernel's timers are off, so that nothing but a sync
 * writes them.
 */
describeMachine('a node that loses power right after DONE', 'installed', (machine) => {
  const node = stickpinOn(machine);
  const key = sampleKey('factory-2026');
  const directory = folderForAll();
  let sequence = 0;

  const make = (version: string): Promise<SampleBundle> =>
    makeSampleBundle({
      dir: join(directory, version, 'stickpin'),
      version,
      sequence,
      keys: [key],
      images: ['etcd', 'api'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:${version}`,
        image: sampleImage({
          seed: `${name}-${version}`,
          layers: [sampleLayer({ seed: `${name}-${version}`, sizeBytes: 2 * MIB })],
        }),
      })),
    });
  /** Of all files of unpacked layers. */
  const sums = async () => {
    const text = await machine().output(`find ${SNAPSHOTS} -path '*/fs/*' -type f -exec sha256sum {} +`);
    return new Map(text.split('\n').map((line) => [line.slice(66), line.slice(0, 64)] as const));
  };
  /** Loads a new release from a stick, and waits for DONE. Returns the files that came with it. */
  const load = async () => {
    sequence += 1;
    const version = `4.13.${sequence}`;
    const { bundleId } = await make(version);
    const stick = await makeStick({
      image: join(directory, `${version}.img`),
      folder: join(directory, version),
      filesystem: 'ext4',
    });
    await machine().output('sysctl vm.dirty_writeback_centisecs=0 vm.dirty_expire_centisecs=600000');
    const before = await sums().catch(() => new Map<string, string>());
    const plugged = await machine().plug(stick);
    const isDone = ({ advice, bundles }: StatusReport) =>
      advice.words === 'DONE' && bundles.some((one) => one.bundleId === bundleId && one.phase === 'activated');
    await node.until(`${version} to be done`, isDone);
    const files = [...(await sums())].filter(([path]) => !before.has(path));
    expect(files.length).toBeGreaterThan(0);
    await plugged.unplug();
    return { bundleId, files };
  };
  const lostOf = async (files: readonly (readonly [string, string])[]) => {
    const after = await sums();
    return files.filter(([path, sum]) => after.get(path) !== sum).map(([path]) => path);
  };

  beforeAll(async () => {
    await machine().output('systemctl enable --now containerd.service');
    await startInstalled(machine(), { keys: { 'factory-2026': key.publicPem } });
  });

  test('without the sync files of its images are lost, which shows that these cuts lose what is in memory', async () => {
    await machine().putFile(NO_SYNC, '#!/bin/sh\nexit 0\n', 0o755);
    const { files } = await load();
    await machine().powerCut();
    expect(await lostOf(files)).not.toEqual([]);
    await machine().output(`rm -f ${NO_SYNC}`);
  });

  test(
    'at a random moment after DONE nothing of its images is lost, and they are pinned',
    async () => {
      const end = performance.now() + MINUTES * 60_000;
      let cuts = 0;
      do {
        const { bundleId, files } = await load();
        const waitMs = Math.round(Math.random() * LONGEST_WAIT_MS);
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        await machine().powerCut();
        expect(await lostOf(files), `after a cut ${waitMs} ms after DONE`).toEqual([]);
        await node.untilPinned('activated', 2, bundleId);
        cuts += 1;
        console.log(`power cut ${cuts}: ${waitMs} ms after DONE, ${files.length} files, none lost`);
      } while (MINUTES === 0 ? cuts < CUTS : performance.now() < end);
    },
    (MINUTES + 30) * 60_000,
  );
});
