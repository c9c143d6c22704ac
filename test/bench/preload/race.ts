import { mkdtempSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { execute } from '../../support/rootfs/execute.ts';
import type { RuntimeKind } from '../bench-runtime.ts';
import { throttledDisk } from '../load/throttled-disk.ts';
import { markdownTable } from '../markdown-table.ts';
import type { Cost } from '../process-cost.ts';
import { sized } from '../size.ts';
import { pullByHand } from './contenders.ts';
import { layeredImages, PRELOAD_IMAGES } from './layered-images.ts';
import { preloadOnce } from './preload-daemon.ts';

const GIB = 1024 ** 3;
const BY_HAND = [1, 2, 4] as const;
/** For each GiB: the daemon's in a preload, and of its registry alone while two pull by hand. */
const CPU_COLUMNS = ['daemon CPU a GiB', 'registry alone'];

/** What `npm run bench -- race PART` measures. */
const PARTS = ['page-cache', '100', '35'] as const;
type Part = (typeof PARTS)[number];

/** A medium, and how often each contender runs from it; the quickest run counts. */
interface Course {
  readonly part: Part;
  readonly name: string;
  readonly turns: number;
  /** The most that a preload may take of the quickest pulls by hand. */
  readonly aim: number;
}

const PAGE_CACHE: Course = { part: 'page-cache', name: 'page cache', turns: sized(3, 1), aim: 1.1 };
/** Good sticks at USB 3 and at USB 2.0. */
const STICKS: readonly (Course & { readonly bytesPerSecond: number })[] = [
  { part: '100', name: '100 MB/s', turns: sized(2, 1), aim: 1.05, bytesPerSecond: 100e6 },
  { part: '35', name: '35 MB/s', turns: 1, aim: 1.05, bytesPerSecond: 35e6 },
];

/**
 * Prints a preload with the default settings beside 1, 2 and 4 pulls at once by hand, for both
 * runtimes, from page cache and from disks that are as slow as sticks. Beside the daemon's
 * processor time for each GiB is that of its registry alone. Each row is printed as soon as it is
 * measured.
 *
 * @param part one of {@link PARTS}; default all
 */
export async function benchRace(print: (text: string) => void, part?: string): Promise<void> {
  if (part !== undefined && !PARTS.some((one) => one === part)) {
    throw new Error(`race has no part ${part}: ${PARTS.join(', ')}`);
  }
  const isWanted = (course: Course) => part === undefined || course.part === part;
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  const hands = BY_HAND.map((parallel) => `${parallel} by hand`);
  const header = ['from', 'runtime', 'stickpin', ...hands, 'stickpin / quickest', 'aim', ...CPU_COLUMNS, 'peak'];
  const printRow = (row: readonly string[]) => print(`| ${row.join(' | ')} |\n`);
  print(`\n${markdownTable(header, [])}`);
  try {
    const medium = join(folder, 'medium');
    const bundle = await makeSampleBundle({
      dir: join(medium, 'stickpin'),
      keys: [sampleKey()],
      images: layeredImages(PRELOAD_IMAGES),
      schedule: 'manual',
    });
    if (isWanted(PAGE_CACHE)) await race(bundle, PAGE_CACHE, { before: () => execute(['sync']), printRow });
    for (const stick of STICKS.filter(isWanted)) {
      const disk = await throttledDisk(medium, folder, stick.bytesPerSecond);
      try {
        const there = { ...bundle, path: join(disk.path, relative(medium, bundle.path)) };
        await race(there, stick, { before: disk.cool, printRow });
      } finally {
        await disk.release();
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function race(
  bundle: SampleBundle,
  course: Course,
  { before, printRow }: { before: () => Promise<unknown>; printRow: (row: readonly string[]) => void },
): Promise<void> {
  for (const kind of ['containerd', 'cri-o'] as const) {
    const best = await quickest(kind, bundle, course, before);
    const preload = best.get('stickpin');
    if (preload === undefined) continue;
    const hands = BY_HAND.map((parallel) => best.get(`${parallel}`)?.wallMs ?? Number.NaN);
    const ms = (value: number) => `${Math.round(value).toLocaleString('en')} ms`;
    const cpuOf = (cost?: Cost) => secondsForEachGib(cost?.ownCpuMs ?? Number.NaN, bundle);
    printRow([
      course.name,
      kind === 'cri-o' ? 'CRI-O double' : kind,
      ms(preload.wallMs),
      ...hands.map(ms),
      (preload.wallMs / Math.min(...hands)).toFixed(2),
      `at most ${course.aim}`,
      cpuOf(preload),
      cpuOf(best.get('2')),
      `${preload.peakMiB.toFixed(0)} MiB`,
    ]);
  }
}

function secondsForEachGib(cpuMs: number, bundle: SampleBundle): string {
  const gib = bundle.payload.totals.sizeBytes / GIB;
  return `${(cpuMs / 1000 / gib).toFixed(2)} s`;
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
