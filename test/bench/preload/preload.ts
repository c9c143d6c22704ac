import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import type { LayerStorage } from '../../../src/domain/model/image.ts';
import { diskUse } from '../../../src/domain/preload/space.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import type { DaemonTold } from '../daemon-child.ts';
import { onBusyDisk } from '../load/busy-disk.ts';
import { measureRegistryLoad } from '../load/registry-load.ts';
import { layeredImages, PRELOAD_IMAGES } from './layered-images.ts';
import { type PreloadRun, preloadFromInside, preloadOnce } from './preload-daemon.ts';

const MIB = 1024 * 1024;

/**
 * Prints what a preload from page cache takes of a node besides time: how late the daemon's event
 * loop is, what it asks of the medium, disk and memory.
 */
export async function benchPreload(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  try {
    const bundle = await makeSampleBundle({
      dir: join(folder, 'stickpin'),
      keys: [sampleKey()],
      images: layeredImages(PRELOAD_IMAGES),
      schedule: 'manual',
    });
    const insideBoth = async (): Promise<Inside> => ({
      containerd: await preloadFromInside('containerd', bundle),
      crio: await preloadFromInside('cri-o', bundle),
    });
    const inside = await insideBoth();
    const busy = await onBusyDisk(insideBoth);
    const { images, blobs, sizeBytes } = bundle.payload.totals;
    print(`\n${images} images, ${blobs} blobs, ${(sizeBytes / MIB).toFixed(0)} MiB\n\n`);
    print(formatTable(['AIM', 'AIMED AT', 'CONTAINERD', 'CRI-O DOUBLE'], aims(inside, busy, sizeBytes)));
    print('\n');
    print(
      formatTable(
        ['DISK', 'ESTIMATE', 'USED', 'ESTIMATE / USED'],
        [
          ...diskRows('containerd', 'both', bundle, await preloadOnce('containerd', bundle)),
          ...diskRows('CRI-O double', 'unpacked', bundle, await preloadOnce('cri-o', bundle)),
        ],
      ),
    );
    print('\n');
    print(formatTable(['REGISTRY', 'AIMED AT', 'MEASURED'], await measureRegistryLoad(bundle)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a daemon beside each runtime tells from the inside. */
interface Inside {
  readonly containerd: DaemonTold;
  readonly crio: DaemonTold;
}

function aims(inside: Inside, busy: Inside, unique: number): string[][] {
  const both = (told: Inside, show: (told: DaemonTold) => string) => [show(told.containerd), show(told.crio)];
  const late = ({ lateMs }: DaemonTold) => `${lateMs.p999.toFixed(1)} ms (most ${lateMs.max.toFixed(0)})`;
  return [
    ['bytes asked of the medium / unique', '1.00', ...both(inside, (told) => (told.mediumBytes / unique).toFixed(4))],
    ['event-loop delay p99.9', 'under 50 ms', ...both(inside, late)],
    ['the same while others keep the disk busy', 'under 50 ms', ...both(busy, late)],
  ];
}

function diskRows(what: string, layerStorage: LayerStorage, bundle: SampleBundle, { disk }: PreloadRun): string[][] {
  const { layers, images } = bundle.contents;
  const estimate = diskUse(layers, images.length, layerStorage);
  return [
    [
      `${what}, bytes`,
      `${(estimate.bytes / MIB).toFixed(1)} MiB`,
      `${(disk.bytes / MIB).toFixed(1)} MiB`,
      (estimate.bytes / disk.bytes).toFixed(3),
    ],
    [`${what}, inodes`, `${estimate.inodes}`, `${disk.inodes}`, (estimate.inodes / disk.inodes).toFixed(3)],
  ];
}
