import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import type { LayerStorage } from '../../../src/domain/model/image.ts';
import { diskUse } from '../../../src/domain/preload/space.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { execute } from '../../support/rootfs/execute.ts';
import type { DaemonTold } from '../daemon-child.ts';
import { onBusyDisk } from '../load/busy-disk.ts';
import { measureRegistryLoad } from '../load/registry-load.ts';
import type { Cost } from '../process-cost.ts';
import { sized } from '../size.ts';
import { type Best, contest, costTable } from './contest.ts';
import { layeredImages, layoutTar, PRELOAD_IMAGES } from './layered-images.ts';
import { type PreloadRun, preloadFromInside } from './preload-daemon.ts';

const MIB = 1024 * 1024;
/** Each is run so often, and the quickest run counts. */
const RUNS = sized(3, 1);

/**
 * Prints the preload of one bundle by stickpin beside the other ways to get its images into a
 * runtime, and what is aimed at.
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
    const tar = await layoutTar(bundle, folder);
    const insideBoth = async (): Promise<Inside> => ({
      containerd: await preloadFromInside('containerd', bundle),
      crio: await preloadFromInside('cri-o', bundle),
    });
    const inside = await insideBoth();
    const busy = await onBusyDisk(insideBoth);
    // What one leaves to be written must not burden the next.
    const best = await contest({ bundle, tar, turns: RUNS }, () => execute(['sync']));
    const unique = bundle.payload.totals.sizeBytes;
    const { images, blobs } = bundle.payload.totals;
    print(
      `\n${images} images, ${blobs} blobs, ${(unique / MIB).toFixed(0)} MiB; the quickest of ${RUNS} runs by turns\n\n`,
    );
    print(costTable(best, unique));
    print('\n');
    print(formatTable(['AIM', 'AIMED AT', 'MEASURED'], aims(best, inside, busy, unique)));
    print('\n');
    print(
      formatTable(
        ['DISK', 'ESTIMATE', 'USED', 'ESTIMATE / USED'],
        [
          ...diskRows('containerd', 'both', bundle, best.stickpinContainerd),
          ...diskRows('CRI-O double', 'unpacked', bundle, best.stickpinCrio),
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

function aims(best: Best, inside: Inside, busy: Inside, unique: number): string[][] {
  const share = ({ ownCpuMs, wallMs }: Cost) => `${((100 * ownCpuMs) / wallMs).toFixed(1)} %`;
  const both = (show: (run: PreloadRun, told: DaemonTold) => string) =>
    `${show(best.stickpinContainerd, inside.containerd)} containerd, ${show(best.stickpinCrio, inside.crio)} double`;
  const quotient = (a: Cost, b: Cost) => (a.wallMs / b.wallMs).toFixed(2);
  const late = ({ lateMs }: DaemonTold) => `${lateMs.p999.toFixed(1)} ms (most ${lateMs.max.toFixed(0)})`;
  return [
    ['bytes asked of the medium / unique', '1.00', both((_run, told) => (told.mediumBytes / unique).toFixed(4))],
    ['(d) / (a)', 'at least 2.0', quotient(best.importContainerd, best.stickpinContainerd)],
    ['(d) / the quickest of (b), (b2), (c)', '', quotient(best.importContainerd, quickestPuller(best))],
    ['(a) / (b), double', 'at most 0.85', quotient(best.stickpinCrio, best.serialCrio)],
    ['(a) / (b), containerd', '', quotient(best.stickpinContainerd, best.serialContainerd)],
    ["the daemon's processor time / wall", 'under 15 %', both(share)],
    ["the daemon's greatest memory", 'under 120 MiB', both(({ peakMiB }) => `${peakMiB.toFixed(0)} MiB`)],
    ['event-loop delay p99.9', 'under 50 ms', `${late(inside.containerd)} containerd, ${late(inside.crio)} double`],
    [
      'the same while others keep the disk busy',
      'under 50 ms',
      `${late(busy.containerd)} containerd, ${late(busy.crio)} double`,
    ],
  ];
}

/**
 * Pulls by hand, without anything that a preload is besides: no daemon that pulls over CRI could be
 * quicker.
 */
function quickestPuller({ serialContainerd, twoContainerd, fourContainerd }: Best): Cost {
  return [serialContainerd, twoContainerd, fourContainerd].reduce((a, b) => (b.wallMs < a.wallMs ? b : a));
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
