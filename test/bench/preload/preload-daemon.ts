import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectApi } from '../../../src/api/client.ts';
import { installKeys, type SampleBundle } from '../../support/bundles/sample-bundle.ts';
import { eventually } from '../../support/eventually.ts';
import {
  type DaemonSurroundings,
  embeddedSurroundings,
  type RuntimeKind,
  startBenchRuntime,
} from '../bench-runtime.ts';
import { startChild } from '../child.ts';
import type { DaemonTold } from '../daemon-child.ts';
import { type DaemonProcess, startDaemonProcess } from '../daemon-process.ts';
import type { ControlGroup } from '../load/control-group.ts';
import { withNodeServices } from '../load/service-group.ts';
import { cpuMsOf, peakMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';

/** A preload by the daemon, with what it took of the runtime's disk. */
export interface PreloadRun {
  readonly wallMs: number;
  readonly daemonCpuMs: number;
  readonly daemonPeakMiB: number;
  /** What the runtime took of its disk. */
  readonly disk: { readonly bytes: number; readonly inodes: number };
}

const PRELOAD_TIMEOUT_MS = sized(600_000, 60_000);

/**
 * Preloads a bundle with the built daemon into a new runtime, from `stickpin load` to the event
 * that it is ready.
 */
export function preloadOnce(kind: RuntimeKind | 'embedded', bundle: SampleBundle): Promise<PreloadRun> {
  return withDaemonFolder(kind, bundle, async ({ config, runtime }) => {
    const stop = new AbortController();
    const daemon = await startDaemonProcess(config, runtime.env);
    try {
      return await measure(daemon, runtime, bundle, stop.signal);
    } finally {
      stop.abort();
      await daemon.stop();
    }
  });
}

async function measure(
  daemon: DaemonProcess,
  runtime: DaemonSurroundings,
  bundle: SampleBundle,
  signal: AbortSignal,
): Promise<PreloadRun> {
  const api = await connectApi({ ...process.env, ...runtime.env }, signal);
  const pid = daemon.child.pid ?? 0;
  const diskBefore = await runtime.used();
  const cpuBeforeMs = cpuMsOf(pid);
  const startedAt = performance.now();
  await api.load({ path: bundle.path }, signal);
  await untilReady(daemon);
  const wallMs = performance.now() - startedAt;
  const daemonCpuMs = cpuMsOf(pid) - cpuBeforeMs;
  const daemonPeakMiB = peakMiBOf(pid);
  api.close();
  const diskAfter = await runtime.used();
  const disk = { bytes: diskAfter.bytes - diskBefore.bytes, inodes: diskAfter.inodes - diskBefore.inodes };
  return { wallMs, daemonCpuMs, daemonPeakMiB, disk };
}

/**
 * The same with a daemon that is looked at from the inside; see {@link DaemonTold}. It shares the
 * processors as its service does on a node, beside the runtime as another service.
 */
export function preloadFromInside(kind: RuntimeKind, bundle: SampleBundle): Promise<DaemonTold> {
  return withNodeServices((services) => {
    services.runtime.enter(process.pid);
    return preloadAsService(kind, bundle, services.daemon);
  });
}

function preloadAsService(kind: RuntimeKind, bundle: SampleBundle, group: ControlGroup): Promise<DaemonTold> {
  return withDaemonFolder(kind, bundle, async ({ config, runtime }) => {
    Object.assign(process.env, runtime.env);
    const daemon = await startChild<DaemonTold>('daemon-child', [config, bundle.path], runtime.env);
    try {
      group.enter(daemon.pid);
      let told = await daemon.ask();
      await eventually(async () => {
        told = await daemon.ask();
        if (told.steps.ready === undefined) throw new Error(`not ready: ${told.status}`);
      }, PRELOAD_TIMEOUT_MS);
      return told;
    } finally {
      await daemon.stop();
    }
  });
}

/** A new folder for a daemon, and a new runtime beside it. */
export interface DaemonFolder {
  /** Its settings. */
  readonly config: string;
  readonly runtime: DaemonSurroundings;
  /** A directory that is a medium while it exists; it does not exist yet. */
  readonly stick: string;
}

/** Has `use` work with a new daemon folder, which is removed afterwards. */
export async function withDaemonFolder<T>(
  kind: RuntimeKind | 'embedded',
  bundle: SampleBundle,
  use: (folder: DaemonFolder) => Promise<T>,
): Promise<T> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-bench-'));
  installKeys(join(base, 'keys.d'), bundle.keys);
  mkdirSync(join(base, 'incoming'));
  const runtime = await (kind === 'embedded' ? embeddedSurroundings(base) : startBenchRuntime(kind, base));
  try {
    const config = join(base, 'bench.toml');
    writeFileSync(config, daemonSettings(base) + runtime.settings);
    return await use({ config, runtime, stick: join(base, 'stick') });
  } finally {
    await runtime.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

/** Settings of a daemon below `base`, without its runtime. */
export function daemonSettings(base: string): string {
  return `
    [trust]
    keys_dir = "${base}/keys.d"
    [media]
    detect = false
    directories = ["${base}/stick"]
    incoming = "${base}/incoming"
    [registry]
    listen = "127.0.0.1:0"
    [preload]
    min_free_percent = 0
    [paths]
    state_dir = "${base}/state"
    run_dir = "${base}/run"
  `;
}

/** Waits until the daemon has reported that all images of its only bundle are ready. */
export async function untilReady(daemon: DaemonProcess): Promise<void> {
  await eventually(() => {
    if (!daemon.hasReported('bundleReady')) throw new Error(`not ready: ${daemon.status()}`);
  }, PRELOAD_TIMEOUT_MS);
}
