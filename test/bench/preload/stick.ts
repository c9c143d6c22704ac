import { mkdtempSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { throttledDisk } from '../load/throttled-disk.ts';
import type { Cost } from '../process-cost.ts';
import { sized } from '../size.ts';
import { type Best, contest, costTable } from './contest.ts';
import { layeredImages, layoutTar, PRELOAD_IMAGES } from './layered-images.ts';

const MIB = 1024 * 1024;

/**
 * Each is run so often, and the quickest run counts: two pulls that meet make a run on the double a
 * tenth slower or not.
 */
const TURNS = sized(2, 1);
/** A good stick at USB 2.0, and one at USB 3. */
const STICKS_BYTES_PER_SECOND = [35e6, 100e6] as const;

/**
 * Prints the same contest as a preload from the page cache, from disks that are as slow as sticks,
 * and what is aimed at there.
 */
export async function benchStick(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  try {
    const medium = join(folder, 'medium');
    const made = await makeSampleBundle({
      dir: join(medium, 'stickpin'),
      keys: [sampleKey()],
      images: layeredImages(PRELOAD_IMAGES),
      schedule: 'manual',
    });
    await layoutTar(made, medium);
    for (const bytesPerSecond of STICKS_BYTES_PER_SECOND)
      await contestFrom(medium, made, folder, bytesPerSecond, print);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function contestFrom(
  medium: string,
  made: SampleBundle,
  folder: string,
  bytesPerSecond: number,
  print: (text: string) => void,
): Promise<void> {
  const disk = await throttledDisk(medium, folder, bytesPerSecond);
  try {
    const bundle = { ...made, path: join(disk.path, relative(medium, made.path)) };
    const best = await contest({ bundle, tar: join(disk.path, 'layout.tar'), turns: TURNS }, disk.cool);
    const { images, sizeBytes } = bundle.payload.totals;
    print(`\n${images} images, ${(sizeBytes / MIB).toFixed(0)} MiB from a disk of ${bytesPerSecond / 1e6} MB/s\n\n`);
    print(costTable(best, sizeBytes));
    print('\n');
    print(formatTable(['AIM', 'AIMED AT', 'MEASURED'], aims(best)));
  } finally {
    await disk.release();
  }
}

function aims(best: Best): string[][] {
  const { cat, stickpinContainerd, stickpinCrio } = best;
  const quotient = (a: Cost, b: Cost) => (a.wallMs / b.wallMs).toFixed(2);
  const share = ({ ownCpuMs, wallMs }: Cost) => `${((100 * ownCpuMs) / wallMs).toFixed(1)} %`;
  return [
    [
      '(a) / (f), reading alone',
      'at most 1.05',
      `${quotient(stickpinContainerd, cat)} containerd, ${quotient(stickpinCrio, cat)} double`,
    ],
    ['(d) / (a)', '', quotient(best.importContainerd, stickpinContainerd)],
    ['(a) / (b), double', 'at most 0.85', quotient(stickpinCrio, best.serialCrio)],
    ['(a) / (b), containerd', '', quotient(stickpinContainerd, best.serialContainerd)],
    [
      "the daemon's processor time / wall",
      'under 15 %',
      `${share(stickpinContainerd)} containerd, ${share(stickpinCrio)} double`,
    ],
  ];
}
