import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectApi } from '../../../src/api/client.ts';
import { formatTable } from '../../../src/cli/output/table.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { installKeys, makeSampleBundle, type SampleKey, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { verified } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { openSampleState } from '../../support/state/open-sample-state.ts';
import { BENCH_REGISTRY, embeddedSurroundings } from '../bench-runtime.ts';
import { startDaemonProcess } from '../daemon-process.ts';
import { cpuMsOf, residentMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import { quickest, runProgram } from '../stickpin-process.ts';
import { daemonSettings } from './preload-daemon.ts';

/** Images of releases that are ready, lines of past releases, bundles on a stick. */
interface Extent {
  readonly images: number;
  readonly past: number;
  readonly bundles: number;
}

const EXTENTS: readonly Extent[] = sized(
  [
    { images: 100, past: 2, bundles: 3 },
    { images: 1_000, past: 20, bundles: 30 },
    { images: 10_000, past: 200, bundles: 300 },
  ],
  [{ images: 10, past: 2, bundles: 2 }],
);
const STREAMS = 5;
const IDLE_MS = sized(60_000, 500);
const SETTLE_MS = sized(30_000, 100);
const LIMIT_MS = 1_200_000;
const RUNS = sized(5, 1);

/** Prints what a start, idle rounds, the commands and a stick cost by how much the node has. */
export async function benchExtent(print: (text: string) => void): Promise<void> {
  const columns: (readonly (readonly [string, string])[])[] = [];
  for (const extent of EXTENTS) {
    const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
    try {
      columns.push(await measure(base, extent));
    } finally {
      rmSync(base, { recursive: true, force: true });
    }
  }
  const header = ['WHAT', ...EXTENTS.map((one) => `${one.images} IMAGES, ${one.past} PAST, ${one.bundles} BUNDLES`)];
  const rows = (columns[0] ?? []).map(([what], at) => [what, ...columns.map((column) => column[at]?.[1] ?? '')]);
  print(`\n${formatTable(header, rows)}`);
}

async function measure(base: string, extent: Extent): Promise<readonly (readonly [string, string])[]> {
  const key = sampleKey();
  installKeys(join(base, 'keys.d'), [key]);
  mkdirSync(join(base, 'incoming'));
  const runtime = await embeddedSurroundings(base);
  const config = join(base, 'bench.toml');
  writeFileSync(config, daemonSettings(base) + runtime.settings);
  const start = () => startDaemonProcess(config, runtime.env);
  const status = () => JSON.parse(readFileSync(join(base, 'run/status.json'), 'utf8')) as StatusReport;
  const command = (...args: readonly string[]) => runProgram(runtime.env, ...args);
  try {
    leavePast(join(base, 'state/state.db'), extent.past);
    await preloadAll(base, key, extent, { start, status, env: runtime.env });
    await makeStick(join(base, 'prepared'), key, extent.bundles);

    const daemon = await start();
    const pid = daemon.child.pid ?? 0;
    await delay(SETTLE_MS);
    const startCpuMs = cpuMsOf(pid);
    const idle = await idleCpuMs(pid);
    const commands: (readonly [string, string])[] = [];
    for (const args of [['status'], ['list'], ['show', '--images', 'stream1@1.0.0'], ['history']]) {
      const runs = [];
      for (let run = 0; run < RUNS; run += 1) runs.push(await command(...args));
      commands.push([`stickpin ${args.join(' ')}`, ms(quickest(runs).wallMs)]);
    }
    const beforeMs = cpuMsOf(pid);
    const pluggedAt = performance.now();
    renameSync(join(base, 'prepared'), join(base, 'stick'));
    await eventually(() => {
      const { media } = status();
      const stick = media.find(({ medium }) => medium === join(base, 'stick'));
      if (stick?.bundles !== extent.bundles) throw new Error(`${stick?.bundles} bundles are read`);
    }, LIMIT_MS);
    const readMs = performance.now() - pluggedAt;
    await delay(SETTLE_MS);
    const stickCpuMs = cpuMsOf(pid) - beforeMs;
    const idleWithStick = await idleCpuMs(pid);
    const memory = residentMiBOf(pid);
    await daemon.stop();
    return [
      ['start to READY=1', ms(daemon.readyMs)],
      [`processor time of the first ${SETTLE_MS / 1000} s`, ms(startCpuMs)],
      [`processor time of ${IDLE_MS / 1000} s at rest`, ms(idle)],
      ...commands,
      ['from plug until all bundles of the stick are read', ms(readMs)],
      [`processor time of that and the ${SETTLE_MS / 1000} s after it`, ms(stickCpuMs)],
      [`processor time of ${IDLE_MS / 1000} s at rest with the stick`, ms(idleWithStick)],
      ['resident memory then', `${memory.toFixed(0)} MiB`],
    ];
  } finally {
    await runtime.stop();
  }
}

interface Node {
  readonly start: () => ReturnType<typeof startDaemonProcess>;
  readonly status: () => StatusReport;
  readonly env: Readonly<Record<string, string>>;
}

/** Has the daemon load all images, a fifth for each of five releases of different streams. */
async function preloadAll(base: string, key: SampleKey, { images }: Extent, { start, status, env }: Node) {
  const stop = new AbortController();
  const daemon = await start();
  const api = await connectApi({ ...process.env, ...env }, stop.signal);
  const below = sampleLayer({ seed: 'base', sizeBytes: 1024 });
  for (let at = 1; at <= STREAMS; at += 1) {
    const bundle = await makeSampleBundle({
      dir: join(base, 'factory'),
      name: `stream${at}`,
      version: '1.0.0',
      keys: [key],
      schedule: 'manual',
      images: Array.from({ length: images / STREAMS }, (_none, image) => {
        const seed = `${at}-${image}`;
        const layers = [below, sampleLayer({ seed, sizeBytes: 256 })];
        return { reference: `${BENCH_REGISTRY}/extent/image${seed}:1.0.0`, image: sampleImage({ seed, layers }) };
      }),
    });
    await api.load({ path: bundle.path }, stop.signal);
    await eventually(() => {
      if (status().bundles.filter(({ phase }) => phase === 'ready').length < at) throw new Error(daemon.status());
    }, LIMIT_MS);
    rmSync(bundle.path, { recursive: true });
  }
  api.close();
  await daemon.stop();
}

/** What releases of another stream leave that are retired and forgotten. */
function leavePast(path: string, count: number): void {
  mkdirSync(join(path, '..'), { recursive: true });
  const { store, close } = openSampleState(path);
  for (let sequence = 1; sequence <= count; sequence += 1) {
    const bundle = verified({ name: 'old', version: `0.9.${sequence}`, sequence });
    store.adopt(bundle, { at: sequence, kind: 'bundleVerified', message: 'adopted' });
    store.forget(bundle.bundleId, undefined);
  }
  close();
}

/** Releases of one stream with one image each, which all of them have. */
async function makeStick(folder: string, key: SampleKey, count: number): Promise<void> {
  const images = [{ reference: `${BENCH_REGISTRY}/extent/one:1.0.0`, image: sampleImage({ seed: 'one' }) }];
  for (let sequence = 1; sequence <= count; sequence += 1) {
    const dir = join(folder, 'stickpin');
    await makeSampleBundle({ dir, name: 'many', version: `1.0.${sequence}`, sequence, keys: [key], images });
  }
}

async function idleCpuMs(pid: number): Promise<number> {
  const beforeMs = cpuMsOf(pid);
  await delay(IDLE_MS);
  return cpuMsOf(pid) - beforeMs;
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}
