import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join, relative } from 'node:path';
import { formatTable } from '../../../src/cli/output/table.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { createPublicNode } from '../../support/public-node.ts';
import { type BenchChild, startChild } from '../child.ts';
import { layeredImages, PRELOAD_IMAGES } from '../preload/layered-images.ts';
import { peakMiBOf, residentMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import type { RegistryTold } from './registry-child.ts';
import { throttledDisk } from './throttled-disk.ts';

const MIB = 1024 * 1024;
/** The user `nobody`. */
const OTHER_USER = 65_534;
/** How long root pulls under each load. */
const PULL_MS = sized(10_000, 500);
/** Each load is measured so often, by turns, and the quickest counts. */
const TURNS = sized(3, 1);

const HALF_SENT = sized(15_000, 100);

/**
 * What another user does meanwhile, as a program that gets the port as `PORT`. It writes a line
 * when it has begun.
 */
interface Load {
  readonly name: string;
  readonly program: string | undefined;
}

const OPEN = `
const { connect } = require('node:net');
const open = (text) => {
  const socket = connect(PORT, '127.0.0.1').on('error', () => {}).resume();
  return socket.on('connect', () => socket.write(text));
};`;

const LOADS: readonly Load[] = [
  { name: 'none', program: undefined },
  {
    name: '4 loops of connect, GET, reset',
    program: `${OPEN}
const next = () => open('GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n').on('connect', function () { this.resetAndDestroy(); }).on('close', next);
for (let count = 0; count < 4; count += 1) next();
console.log('begun');`,
  },
  {
    name: `${HALF_SENT.toLocaleString('en')} half-sent headers, opened again 2 s after they were closed`,
    program: `${OPEN}
const next = () => open('GET /v2/ HTTP/1.1\\r\\nhost: x\\r\\nx-half: ').on('close', () => setTimeout(next, 2000));
for (let count = 0; count < ${HALF_SENT}; count += 1) next();
console.log('begun');`,
  },
];

/** What root's pull came to under one load. */
interface Pull {
  readonly mibPerSecond: number;
  /** From the connection to the first byte, the longest of all blobs. */
  readonly slowestStartMs: number;
  readonly growthMiB: number;
}

/** The page cache, and a good stick at USB 2.0 and one at USB 3. */
const MEDIA_BYTES_PER_SECOND = [35e6, 100e6, undefined] as const;

/**
 * Prints how fast root pulls from the registry, blob by blob over new connections, while another
 * user loads it: from disks that are as slow as sticks, and from page cache. Needs root and 20,000
 * open files.
 */
export async function benchAttack(print: (text: string) => void): Promise<void> {
  const folder = mkdtempSync('/var/tmp/stickpin-bench-');
  try {
    const medium = join(folder, 'medium');
    const images = layeredImages(PRELOAD_IMAGES);
    const bundle = await makeSampleBundle({ dir: join(medium, 'stickpin'), keys: [sampleKey()], images });
    for (const bytesPerSecond of MEDIA_BYTES_PER_SECOND) {
      if (bytesPerSecond === undefined) {
        print(`\nfrom page cache\n\n${attackTable(await bestPulls(bundle))}`);
        continue;
      }
      const disk = await throttledDisk(medium, folder, bytesPerSecond);
      try {
        const slow = { ...bundle, path: join(disk.path, relative(medium, bundle.path)) };
        const pulls = await bestPulls(slow, disk.cool);
        print(`\nfrom a disk of ${bytesPerSecond / 1e6} MB/s\n\n${attackTable(pulls)}`);
      } finally {
        await disk.release();
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The quickest pull under each load. `cool` runs before each. */
async function bestPulls(bundle: SampleBundle, cool?: () => Promise<unknown>): Promise<ReadonlyMap<string, Pull>> {
  using node = createPublicNode();
  const best = new Map<string, Pull>();
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const load of LOADS) {
      await cool?.();
      const pull = await pullUnder(load, bundle, node.path);
      const known = best.get(load.name);
      if (known === undefined || pull.mibPerSecond > known.mibPerSecond) best.set(load.name, pull);
    }
  }
  return best;
}

function attackTable(best: ReadonlyMap<string, Pull>): string {
  const alone = best.get('none')?.mibPerSecond ?? Number.NaN;
  const rows = [...best].map(([name, pull]) => [
    name,
    `${pull.mibPerSecond.toFixed(0)} MiB/s`,
    `${((100 * pull.mibPerSecond) / alone).toFixed(0)} %`,
    `${pull.slowestStartMs.toFixed(0)} ms`,
    `${pull.growthMiB.toFixed(0)} MiB`,
  ]);
  return formatTable(['LOAD OF ANOTHER USER', "ROOT'S PULL", 'OF ALONE', 'SLOWEST START', 'MEMORY'], rows);
}

async function pullUnder(load: Load, bundle: SampleBundle, nodePath: string): Promise<Pull> {
  const registry = await startChild<RegistryTold>('registry-child', [bundle.path, 'root-only']);
  const [host = '', port = ''] = registry.hello.authority.split(':');
  const other = await startLoad(load, port, nodePath);
  try {
    return await pullFor(PULL_MS, bundle, registry, { host, port });
  } finally {
    other?.kill('SIGKILL');
    await registry.stop();
  }
}

async function startLoad({ program }: Load, port: string, nodePath: string): Promise<ChildProcess | undefined> {
  if (program === undefined) return undefined;
  const child = spawn(nodePath, ['-e', program.replaceAll('PORT', port)], {
    uid: OTHER_USER,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

async function pullFor(
  durationMs: number,
  { contents }: SampleBundle,
  registry: BenchChild<RegistryTold>,
  target: { readonly host: string; readonly port: string },
): Promise<Pull> {
  const idleMiB = residentMiBOf(registry.pid);
  const startedAt = performance.now();
  let sentBytes = 0;
  let slowestStartMs = 0;
  for (let at = 0; performance.now() - startedAt < durationMs; at += 1) {
    const digest = contents.layers[at % contents.layers.length]?.digest;
    const askedAt = performance.now();
    const asked = request({ ...target, path: `/v2/bench/blobs/${digest}`, agent: new Agent() }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    slowestStartMs = Math.max(slowestStartMs, performance.now() - askedAt);
    for await (const chunk of response) sentBytes += (chunk as Buffer).length;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  return { mibPerSecond: sentBytes / MIB / seconds, slowestStartMs, growthMiB: peakMiBOf(registry.pid) - idleMiB };
}
