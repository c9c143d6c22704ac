import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import { startMachine } from '../../e2e/machine/machine.ts';
import { makeStick, type Stick } from '../../e2e/machine/qemu/stick.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { layeredImages, layoutTar } from '../preload/layered-images.ts';
import { sized } from '../size.ts';
import { type GuestNode, prepareGuestNode } from './guest-node.ts';
import {
  type GuestPreload,
  type GuestRun,
  importInGuest,
  preloadInGuest,
  pullInGuest,
  readBlobs,
} from './guest-runs.ts';

const MIB = 1024 * 1024;
/** Ten images over two shared layers, 204 MiB in 12 layers. */
const IMAGES = sized({ sharedMiB: [36, 28], images: 10, ownMiB: 14 }, { sharedMiB: [1], images: 2, ownMiB: 1 });
/** A good stick; what an emulated processor unpacks is slower. */
const STICK_BYTES_PER_SECOND = 35e6;
/** So slow that an emulated processor waits for the stick. */
const SLOW_BYTES_PER_SECOND = 2e6;

interface Sticks {
  readonly bundle: Stick;
  /** With the same images as one tar. */
  readonly tar: Stick;
}

/**
 * Prints what a preload from a throttled stick takes in a whole machine, beside reading the same
 * blobs and what a person could do by hand.
 */
export async function benchGuest(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  try {
    const key = sampleKey();
    const dir = join(folder, 'stick/stickpin');
    const images = layeredImages(IMAGES);
    const bundle = await makeSampleBundle({ dir, keys: [key], images, schedule: 'manual' });
    const sticks = await makeSticks(bundle, folder);
    const machine = await startMachine('trixie');
    try {
      await measure(await prepareGuestNode(machine, key, folder), bundle, sticks, print);
    } finally {
      await machine.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function makeSticks(bundle: SampleBundle, folder: string): Promise<Sticks> {
  const tarFolder = join(folder, 'tar');
  mkdirSync(tarFolder);
  await layoutTar(bundle, tarFolder);
  return {
    bundle: await makeStick({ image: join(folder, 'bundle.img'), folder: join(folder, 'stick') }),
    tar: await makeStick({ image: join(folder, 'tar.img'), folder: tarFolder }),
  };
}

async function measure(node: GuestNode, bundle: SampleBundle, sticks: Sticks, print: (text: string) => void) {
  const told = async <T extends GuestRun>(what: string, run: () => Promise<T>): Promise<T> => {
    const result = await run();
    process.stderr.write(`${what}: ${seconds(result.wallMs)}\n`);
    return result;
  };
  const at = async (bytesPerSecond: number) => ({
    reading: await told('reading', () => readBlobs(node, sticks.bundle, bytesPerSecond)),
    stickpin: await told('stickpin', () => preloadInGuest(node, sticks.bundle, bytesPerSecond)),
  });
  const fast = await at(STICK_BYTES_PER_SECOND);
  const slow = await at(SLOW_BYTES_PER_SECOND);
  const pulls = await told('pulls', () => pullInGuest(node, sticks.bundle, STICK_BYTES_PER_SECOND, bundle));
  const tar = await told('import', () => importInGuest(node, sticks.tar, STICK_BYTES_PER_SECOND));

  const { images, sizeBytes } = bundle.payload.totals;
  print(`\n${images} images, ${(sizeBytes / MIB).toFixed(0)} MiB, containerd in the guest\n\n`);
  const row = (what: string, run: GuestRun, reading: GuestRun) => [
    what,
    seconds(run.wallMs),
    (run.wallMs / reading.wallMs).toFixed(2),
    seconds(run.busyMs),
    (run.readBytes / sizeBytes).toFixed(3),
  ];
  const rate = (bytesPerSecond: number) => `${bytesPerSecond / 1e6} MB/s`;
  const pair = (bytesPerSecond: number, { reading, stickpin }: typeof fast) => [
    row(`reading alone, ${rate(bytesPerSecond)}`, reading, reading),
    row(`stickpin, ${rate(bytesPerSecond)}`, stickpin, reading),
    row('  counted from the plug', { ...stickpin, wallMs: stickpin.sincePlug.ready }, reading),
  ];
  print(
    formatTable(
      ['WHAT', 'WALL', 'WALL / READING', 'STICK BUSY', 'READ / UNIQUE'],
      [
        ...pair(STICK_BYTES_PER_SECOND, fast),
        row('pulls one by one', pulls, fast.reading),
        row('ctr images import, one tar', tar, fast.reading),
        ...pair(SLOW_BYTES_PER_SECOND, slow),
      ],
    ),
  );
  print('\n');
  print(timesTable(fast.stickpin, slow.stickpin));
}

function timesTable(fast: GuestPreload, slow: GuestPreload): string {
  const what = {
    attached: 'the kernel has the disk',
    found: 'mounted and judged',
    preloading: 'preloading',
    firstPulled: 'first image pulled',
    lastPulled: 'last image pulled',
    ready: 'reported as ready',
  } as const;
  const rows = (Object.keys(what) as (keyof typeof what)[]).map((key) => [
    what[key],
    seconds(fast.sincePlug[key]),
    seconds(slow.sincePlug[key]),
  ]);
  const at = (bytesPerSecond: number) => `AT ${bytesPerSecond / 1e6} MB/S`;
  return formatTable(['SINCE THE PLUG', at(STICK_BYTES_PER_SECOND), at(SLOW_BYTES_PER_SECOND)], rows);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
