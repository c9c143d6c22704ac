import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { mountedDisk } from '../load/throttled-disk.ts';
import { markdownTable } from '../markdown-table.ts';
import { sized } from '../size.ts';
import { measure, measureKilled, type Plugged, type Result } from './measure.ts';
import { SETS, type SetName, stickAt, writeStick } from './stick-set.ts';
import { IMPORT, K3S_IMPORT, load, pulls, READING, REGISTRIES, SKOPEO, stickpin, type Way } from './ways.ts';

const MIB = 1024 ** 2;

/** How fast the stick is. */
const SPEEDS = { '35': 35e6, '100': 100e6, 'page-cache': undefined } as const;
type Speed = keyof typeof SPEEDS;

const RUNTIMES = ['containerd', 'cri-o'] as const;
const STICKPIN = RUNTIMES.map(stickpin);
/** What a daemon that pulls over CRI can reach. */
const BY_HAND = RUNTIMES.flatMap((kind) => [1, 2, 4].map((parallel) => pulls(REGISTRIES.own, kind, parallel)));
const WAYS: readonly Way[] = [
  READING,
  ...STICKPIN,
  ...(['docker', 'podman'] as const).map(stickpin),
  IMPORT,
  K3S_IMPORT,
  load('docker'),
  load('podman'),
  SKOPEO,
  ...RUNTIMES.flatMap((kind) => [1, 4].map((parallel) => pulls(REGISTRIES.stick, kind, parallel))),
  ...[1, 4].map((parallel) => pulls(REGISTRIES.node, 'containerd', parallel)),
];

/** How each set is measured. */
interface Plan {
  readonly ways: readonly Way[];
  /** How often from a stick of each speed; the quickest run counts. */
  readonly turns: Readonly<Partial<Record<Speed, number>>>;
  /** Those that are also killed half-way. */
  readonly killed: readonly Way[];
}

const PLANS: Readonly<Record<SetName, Plan>> = {
  small: {
    ways: [...WAYS, ...BY_HAND],
    turns: sized({ '35': 1, '100': 2, 'page-cache': 3 }, { 'page-cache': 1 }),
    killed: WAYS.filter((way) => way !== READING),
  },
  openshift: {
    ways: sized(WAYS, [READING, ...STICKPIN, IMPORT]),
    turns: sized({ '35': 1, '100': 1, 'page-cache': 1 }, { '100': 1 }),
    killed: [],
  },
};

/**
 * Prints what each way takes from a stick that is there to images that are ready, with stickpin and
 * by what people use instead. `words` choose speeds, sets, and ways by a part of their names; each
 * default all. Reading alone is always measured.
 *
 * @throws Error when a word is none of them, or a way does not bring all images
 */
export async function benchStickToReady(print: (text: string) => void, ...words: readonly string[]): Promise<void> {
  const known = [...Object.keys(SPEEDS), ...Object.keys(SETS)];
  const names = words.filter((word) => !known.includes(word));
  const isNamed = ({ name }: Way) => names.some((part) => name.includes(part));
  const unknown = names.find((part) => !PLANS.small.ways.some(({ name }) => name.includes(part)));
  if (unknown !== undefined) throw new Error(`stick-to-ready has no part ${unknown}: ${known.join(', ')}, or a way`);
  const isWanted = (name: string, among: object) => words.includes(name) || !words.some((word) => word in among);
  for (const name of Object.keys(SETS) as SetName[]) {
    if (!isWanted(name, SETS)) continue;
    const folder = mkdtempSync('/var/tmp/stickpin-bench-');
    const { ways, turns, killed } = PLANS[name];
    const chosen = ways.filter((way) => names.length === 0 || way === READING || isNamed(way));
    const plan = {
      ways: chosen,
      turns: Object.fromEntries(Object.entries(turns).filter(([speed]) => isWanted(speed, SPEEDS))),
      killed: killed.filter((way) => chosen.includes(way)),
    };
    try {
      await measureSet(name, plan, folder, print);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

async function measureSet(name: SetName, plan: Plan, folder: string, print: (text: string) => void): Promise<void> {
  const medium = join(folder, 'medium');
  const made = await writeStick(name, folder, medium);
  const disk = await mountedDisk(medium, folder);
  try {
    rmSync(medium, { recursive: true });
    const stick = stickAt(disk.path, medium, made);
    for (const speed of Object.keys(plan.turns) as Speed[]) {
      const { [speed]: bytesPerSecond } = SPEEDS;
      const leave = bytesPerSecond === undefined ? undefined : disk.limit(bytesPerSecond);
      const pathOf = ({ reads }: Way) => (reads === 'bundle' ? stick.bundle.path : stick[reads]);
      const prepare = (way: Way) => (leave === undefined ? disk.warm(pathOf(way)) : disk.cool());
      try {
        await compete(name, speed, plan, { stick, folder, prepare, readBytes: disk.readBytes }, print);
      } finally {
        await leave?.();
      }
    }
  } finally {
    await disk.release();
  }
}

/** By turns, each other turn backwards, so that a neighbour's load falls on all. */
async function compete(
  name: SetName,
  speed: Speed,
  plan: Plan,
  plugged: Plugged,
  print: (text: string) => void,
): Promise<void> {
  const turns = plan.turns[speed] ?? 1;
  const best = new Map<Way, Result>();
  for (let turn = 0; turn < turns; turn += 1) {
    for (const way of turn % 2 === 0 ? plan.ways : plan.ways.toReversed()) {
      const result = await measure(way, plugged);
      process.stderr.write(`${name}, ${speed}, ${way.name}: ${ms(result.wallMs)}\n`);
      if (result.wallMs < (best.get(way)?.wallMs ?? Number.POSITIVE_INFINITY)) best.set(way, result);
    }
  }
  const killed = new Map<Way, number>();
  for (const way of plan.killed) {
    killed.set(way, await measureKilled(way, plugged, (best.get(way)?.wallMs ?? 0) / 2));
  }
  const { images, sizeBytes } = plugged.stick.bundle.payload.totals;
  print(`\n${images} images, ${mib(sizeBytes)}, ${speed}; the quickest of ${turns}\n\n`);
  const readingMs = best.get(READING)?.wallMs ?? Number.NaN;
  const rows = plan.ways.map((way) => rowOf(way, readingMs, best.get(way), killed.get(way)));
  print(markdownTable(HEADER, rows));
}

const HEADER = [
  ...['way', 'until all are present', 'of reading alone', 'kept by', 'read from the stick', 'written', 'space taken'],
  ...['processor time', 'of daemon or registry', 'memory of it', 'killed half-way: until all are present', 'command'],
];

function rowOf(way: Way, readingMs: number, result: Result | undefined, killedMs: number | undefined): string[] {
  if (result === undefined) throw new Error(`${way.name} was not measured`);
  const { wallMs, own, stickBytes, writtenBytes, spaceBytes, cpuMs } = result;
  const seconds = (cpu: number) => `${(cpu / 1000).toFixed(1)} s`;
  return [
    ...[way.name, ms(wallMs), (wallMs / readingMs).toFixed(2), way === READING ? '' : keeper(way, result)],
    ...[stickBytes, writtenBytes, spaceBytes].map(mib),
    ...[seconds(cpuMs), own === undefined ? '' : seconds(own.cpuMs), own === undefined ? '' : mib(own.peakBytes)],
    ...[killedMs === undefined ? '' : ms(killedMs), way.command],
  ];
}

function keeper({ pin }: Way, { isPinned, pinMs }: Result): string {
  if (isPinned) return 'stickpin';
  return pinMs === undefined ? 'nothing' : `nothing until ${pin}: ${ms(pinMs)} more`;
}

function ms(value: number): string {
  return `${Math.round(value).toLocaleString('en')} ms`;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB).toLocaleString('en')} MiB`;
}
