import { mkdtempSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { execute } from '../../support/rootfs/execute.ts';
import type { RuntimeKind } from '../bench-runtime.ts';
import { throttledDisk } from '../load/throttled-disk.ts';
import { markdownTable } from '../markdown-table.ts';
import type { Cost } from '../process-cost.ts';
import { pullByHand } from './contenders.ts';
import { layeredImages, PRELOAD_IMAGES } from './layered-images.ts';
import { preloadOnce } from './preload-daemon.ts';

const GIB = 1024 ** 3;
const BY_HAND = [1, 2, 4] as const;

/** A medium, and how often each contender runs from it; the quickest run counts. */
interface Course {
  readonly name: string;
  readonly turns: number;
  /** The most that a preload may take of the quickest pulls by hand. */
  readonly aim: number;
}

const PAGE_CACHE: Course = { name: 'page cache', turns: 3, aim: 1.1 };
/** Good sticks at USB 3 and at USB 2.0. */
const STICKS: readonly (Course & { readonly bytesPerSecond: number })[] = [
  { name: '100 MB/s', turns: 2, aim: 1.05, bytesPerSecond: 100e6 },
  { name: '35 MB/s', turns: 1, aim: 1.05, bytesPerSecond: 35e6 },
];

/**
 * Prints a preload with the default settings beside 1, 2 and 4 pulls at once by hand, for both
 * runtimes, from page cache and from disks that are as slow as sticks, and the daemon's processor
 * time for each GiB.
 */
export async function benchRace(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  const rows: string[][] = [];
  try {
    const medium = join(folder, 'medium');
    const bundle = await makeSampleBundle({
      dir: join(medium, 'stickpin'),
      keys: [sampleKey()],
      images: layeredImages(PRELOAD_IMAGES),
      schedule: 'manual',
    });
    rows.push(...(await race(bundle, PAGE_CACHE, () => execute(['sync']))));
    for (const stick of STICKS) {
      const disk = await throttledDisk(medium, folder, stick.bytesPerSecond);
      try {
        const there = { ...bundle, path: join(disk.path, relative(medium, bundle.path)) };
        rows.push(...(await race(there, stick, disk.cool)));
      } finally {
        await disk.release();
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const hands = BY_HAND.map((parallel) => `${parallel} by hand`);
  const header = ['from', 'runtime', 'stickpin', ...hands, 'stickpin / quickest', 'aim', 'daemon CPU a GiB', 'peak'];
  print(`\n${markdownTable(header, rows)}`);
}

async function race(bundle: SampleBundle, course: Course, before: () => Promise<unknown>): Promise<string[][]> {
  const rows: string[][] = [];
  for (const kind of ['containerd', 'cri-o'] as const) {
    const best = await quickest(kind, bundle, course, before);
    const preload = best.get('stickpin');
    if (preload === undefined) continue;
    const hands = BY_HAND.map((parallel) => best.get(`${parallel}`)?.wallMs ?? Number.NaN);
    const ms = (value: number) => `${Math.round(value).toLocaleString('en')} ms`;
    const ownSeconds = preload.ownCpuMs / 1000 / (bundle.payload.totals.sizeBytes / GIB);
    rows.push([
      course.name,
      kind === 'cri-o' ? 'CRI-O double' : kind,
      ms(preload.wallMs),
      ...hands.map(ms),
      (preload.wallMs / Math.min(...hands)).toFixed(2),
      `at most ${course.aim}`,
      `${ownSeconds.toFixed(2)} s`,
      `${preload.peakMiB.toFixed(0)} MiB`,
    ]);
  }
  return rows;
}

/** By turns, each other turn backwards, so that a neighbour's load falls on all. */
async function quickest(
  kind: RuntimeKind,
  bundle: SampleBundle,
  { name, turns }: Course,
  before: () => Promise<unknown>,
): Promise<ReadonlyMap<string, Cost>> {
  const runs: [string, () => Promise<Cost>][] = [
    ['stickpin', () => preloadOnce(kind, bundle)],
    ...BY_HAND.map((parallel): [string, () => Promise<Cost>] => [
      `${parallel}`,
      () => pullByHand(kind, bundle, parallel),
    ]),
  ];
  const best = new Map<string, Cost>();
  for (let turn = 0; turn < turns; turn += 1) {
    for (const [what, run] of turn % 2 === 0 ? runs : runs.toReversed()) {
      await before();
      const cost = await run();
      process.stderr.write(`${name}, ${kind}, ${what}: ${Math.round(cost.wallMs)} ms\n`);
      if (cost.wallMs < (best.get(what)?.wallMs ?? Number.POSITIVE_INFINITY)) best.set(what, cost);
    }
  }
  return best;
}
