import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatTable } from '../../src/cli/output/table.ts';
import { installKeys, makeSampleBundle, sampleKey } from '../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../support/bundles/sample-image.ts';
import { eventually } from '../support/eventually.ts';
import { execute } from '../support/rootfs/execute.ts';
import { BENCH_REGISTRY, type DaemonSurroundings, startBenchRuntime } from './bench-runtime.ts';
import { type DaemonProcess, serviceFlags, startDaemonProcess } from './daemon-process.ts';
import { daemonSettings } from './preload/preload-daemon.ts';
import { residentMiBOf } from './process-cost.ts';
import { sized } from './size.ts';

const MIB = 1024 * 1024;
const IDLE_MS = sized(5_000, 500);
const STARTS = sized(5, 1);
/** Large imports of the daemon, each with what it imports itself. */
const IMPORTS = [
  ...['node:http', 'node:http2', 'node:tls', 'better-sqlite3', 'koffi'],
  ...['@grpc/grpc-js', '@grpc/proto-loader', 'dbus-next', 'pino', 'chokidar', 'toml', 'valibot'],
];

/** Prints what the daemon costs while it waits, and how soon it acts. */
export async function benchDaemon(print: (text: string) => void): Promise<void> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  const runtime = await startBenchRuntime('cri-o', base);
  try {
    const key = sampleKey();
    installKeys(join(base, 'keys.d'), [key]);
    mkdirSync(join(base, 'incoming'));
    const image = sampleImage({ seed: 'one', layers: [sampleLayer({ seed: 'one', sizeBytes: 4 * MIB })] });
    const images = [{ reference: `${BENCH_REGISTRY}/bench/one:1.0.0`, image }];
    await makeSampleBundle({ dir: join(base, 'prepared/stickpin'), keys: [key], images });
    writeFileSync(join(base, 'bench.toml'), daemonSettings(base) + runtime.settings);
    print(`\n${formatTable(['DAEMON', 'STICKPIN', 'COMPARED WITH', 'AIM'], await measure(base, runtime))}`);
    print(`\n${formatTable(['IMPORT', 'RESIDENT MEMORY', 'OF ITS OWN', 'TIME'], await importRows())}`);
  } finally {
    await runtime.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

async function measure(base: string, { env }: DaemonSurroundings): Promise<string[][]> {
  const start = () => startDaemonProcess(join(base, 'bench.toml'), env);
  const starts: number[] = [];
  for (let run = 0; run < STARTS; run += 1) {
    const daemon = await start();
    starts.push(daemon.readyMs);
    await daemon.stop();
  }
  const daemon = await start();
  await delay(IDLE_MS);
  const idleMiB = residentMiBOf(daemon.child.pid ?? 0);
  const firstPullMs = await plugToPreloading(base, daemon);
  await daemon.stop();
  const ms = (value: number) => `${Math.round(value)} ms`;
  const median = starts.sort((a, b) => a - b)[Math.floor(STARTS / 2)] ?? 0;
  const bareMiB = `${(await bareNodeMiB()).toFixed(1)} MiB (node, idle)`;
  const bareStart = `${ms(await bareNodeStartMs())} (node -e 0)`;
  return [
    ['idle resident memory', `${idleMiB.toFixed(1)} MiB`, bareMiB, 'under 70 MiB'],
    [`start to READY=1 (median of ${STARTS})`, ms(median), bareStart, 'under 400 ms'],
    ['plug to preloading', ms(firstPullMs), '', 'under 1,000 ms'],
  ];
}

/**
 * From the moment a stick (a directory) is there to the line of the log that says that its images
 * are being loaded.
 */
async function plugToPreloading(base: string, daemon: DaemonProcess): Promise<number> {
  const pluggedAt = performance.now();
  renameSync(join(base, 'prepared'), join(base, 'stick'));
  await eventually(() => {
    if (!daemon.hasReported('preloadStarted')) throw new Error(`nothing is pulled: ${daemon.status()}`);
  }, 20_000);
  return performance.now() - pluggedAt;
}

/** Resident memory of an idle Node without any program, in MiB. */
async function bareNodeMiB(): Promise<number> {
  const script = 'setTimeout(() => { console.log(process.memoryUsage.rss()); }, 2000)';
  return Number(await outputOfNode('-e', script)) / MIB;
}

function outputOfNode(...args: readonly string[]): Promise<string> {
  return execute([process.execPath, ...serviceFlags(), ...args]);
}

/** The memory of a Node without any import, with each one, and with all. */
async function importRows(): Promise<string[][]> {
  const rows: string[][] = [];
  const wanted = [['none', []], ...IMPORTS.map((name) => [name, [name]] as const), ['all of them', IMPORTS]] as const;
  for (const [what, names] of wanted) {
    const load = names.map((name) => `await import('${name}');`).join(' ');
    const script = `const startedAt = performance.now(); ${load} const ms = performance.now() - startedAt;
      setTimeout(async () => {
        const text = (await import('node:fs')).readFileSync('/proc/self/smaps_rollup', 'utf8');
        const kib = (key) => Number(new RegExp('^' + key + ': +([0-9]+)', 'm').exec(text)[1]);
        console.log(JSON.stringify([kib('Rss'), kib('Private_Dirty'), ms]));
      }, 1000);`;
    const [rss = 0, own = 0, ms = 0]: number[] = JSON.parse(await outputOfNode('--input-type=module', '-e', script));
    const mib = (kib: number) => `${(kib / 1024).toFixed(1)} MiB`;
    rows.push([what, mib(rss), mib(own), `${Math.round(ms)} ms`]);
  }
  return rows;
}

async function bareNodeStartMs(): Promise<number> {
  const startedAt = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - startedAt;
}
