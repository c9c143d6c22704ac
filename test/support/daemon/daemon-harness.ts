import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createDaemon, type Daemon } from '../../../src/app/daemon/daemon.ts';
import type { DaemonOptions } from '../../../src/app/daemon/run-daemon.ts';
import { loadSettings } from '../../../src/config/load-settings.ts';
import type { BootTime, RuntimeImage } from '../../../src/domain/model/image.ts';
import type { NodeFacts } from '../../../src/domain/model/node-facts.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { bootTime, nodeFacts } from '../../../src/host/node-facts.ts';
import type { MediaProvider } from '../../../src/media/media-provider.ts';
import { type Clock, systemClock } from '../../../src/platform/clock.ts';
import type { ServiceNotifier, UnitControl } from '../../../src/ports/node.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { hostArch, installKeys, type SampleKey, sampleKey } from '../bundles/sample-bundle.ts';
import { eventually } from '../eventually.ts';
import { createRecordingLog, type RecordingLog } from '../recording-log.ts';

/**
 * Sections of the settings that a test sets; the rest are defaults below the harness's own folder.
 */
export type SettingsOverrides = { readonly [Section in keyof Settings]?: Partial<Settings[Section]> };

/** How a daemon under test is set up. */
export interface HarnessOptions
  extends Pick<
    DaemonOptions,
    'watchBundle' | 'watchRuntime' | 'afterEffect' | 'documentWorker' | 'hookRunner' | 'staticPods' | 'keepsMirrors'
  > {
  readonly settings?: SettingsOverrides;
  /** Where sticks come from beside the directories; default nowhere. Asked at each start. */
  readonly providers?: () => readonly MediaProvider[];
  /** Default: no systemd, reloads do nothing. */
  readonly units?: UnitControl;
  /** Keys in keys.d; default one that {@link DaemonHarness.key} gives. */
  readonly keys?: readonly SampleKey[];
  /** Default: the machine's own. */
  readonly clock?: Clock;
  /** Default: the machine's own. */
  readonly facts?: NodeFacts;
  /** Default: the machine's own. */
  readonly boot?: () => BootTime;
}

/** The real daemon in this process, with a directory for a stick. */
export interface DaemonHarness {
  /** Everything of it lies below. */
  readonly base: string;
  readonly key: SampleKey;
  readonly keysFolder: string;
  /** Where the drop folder is. */
  readonly incoming: string;
  readonly settings: Settings;
  readonly log: RecordingLog;
  /** Each STATUS line once, in order, since the harness was made. */
  readonly statuses: readonly string[];
  daemon(): Daemon;
  report(): StatusReport;
  images(): Promise<readonly RuntimeImage[]>;
  start(): Promise<void>;
  /** SIGTERM's way: stops in order. The folder stays. */
  stop(): Promise<void>;
  /** Puts bundle directories under `stick/stickpin` and plugs the stick in at one stroke. */
  plug(...bundles: readonly string[]): void;
  /** Pulls the stick out; what lay on it is kept for {@link plugAgain}. */
  unplug(): void;
  plugAgain(): void;
  /** Resolves with the first report for which `isIt` holds, now or later. */
  until(isIt: (report: StatusReport) => boolean, timeoutMs?: number): Promise<StatusReport>;
  /** Asks for so many whole rounds, one after the other, and resolves after the last; default 3. */
  rounds(count?: number): Promise<void>;
  /** Stops and removes everything. */
  dispose(): Promise<void>;
}

const noUnits: UnitControl = { reloadUnit: async () => undefined, onUnitChange: () => () => undefined };
const noService: ServiceNotifier = {
  ready: () => undefined,
  status: () => undefined,
  reloading: () => undefined,
  stopping: () => undefined,
};

/**
 * A harness whose daemon is not started yet; the runtime is the embedded one unless the settings
 * say otherwise.
 */
export async function createDaemonHarness(options: HarnessOptions = {}): Promise<DaemonHarness> {
  const base = mkdtempSync(join(tmpdir(), 'stickpin-daemon-'));
  const key = sampleKey('factory-2026');
  const at = (name: string) => join(base, name);
  installKeys(at('keys.d'), options.keys ?? [key]);
  mkdirSync(at('incoming'));
  const settings = await harnessSettings(at, options.settings ?? {});
  const { clock = systemClock, boot = bootTime, units = noUnits, watchBundle, afterEffect } = options;
  const { documentWorker, hookRunner, staticPods, keepsMirrors, facts = nodeFacts() } = options;
  const log = createRecordingLog();
  const statuses: string[] = [];
  let latest: StatusReport | undefined;
  const watchers = new Set<(report: StatusReport) => void>();
  let looks = 0;
  const watchRuntime = (given: RuntimeAdapter): RuntimeAdapter => {
    const runtime = options.watchRuntime?.(given) ?? given;
    const observe: RuntimeAdapter['observe'] = (signal) => {
      looks += 1;
      return runtime.observe(signal);
    };
    return { ...runtime, observe };
  };
  let running: { daemon: Daemon; stop: AbortController; ended: Promise<void> } | undefined;

  const harness: DaemonHarness = {
    base,
    key,
    keysFolder: at('keys.d'),
    incoming: at('incoming'),
    settings,
    log,
    statuses,
    daemon: () => {
      if (running === undefined) throw new Error('the daemon is not started');
      return running.daemon;
    },
    report: () => {
      if (latest === undefined) throw new Error('no report yet');
      return latest;
    },
    images: async () => {
      const seen = await harness.daemon().observeRuntime(new AbortController().signal);
      if (seen.kind !== 'reachable') throw new Error(seen.reason);
      return seen.images;
    },
    start: async () => {
      const stop = new AbortController();
      const daemon = await createDaemon(
        {
          settings,
          log,
          clock,
          node: {
            arch: hostArch,
            clockSynchronised: async () => false,
            facts: () => facts,
            boot: () => boot(),
          },
          notifier: noService,
          units,
          providers: options.providers?.() ?? [],
          ...(watchBundle !== undefined && { watchBundle }),
          watchRuntime,
          ...(afterEffect !== undefined && { afterEffect }),
          ...(documentWorker !== undefined && { documentWorker }),
          ...(hookRunner !== undefined && { hookRunner }),
          ...(staticPods !== undefined && { staticPods }),
          ...(keepsMirrors !== undefined && { keepsMirrors }),
          onStatus: (report) => {
            if (report.status !== statuses.at(-1)) statuses.push(report.status);
            latest = report;
            for (const watcher of watchers) watcher(report);
          },
        },
        stop.signal,
      );
      running = { daemon, stop, ended: daemon.run(stop.signal) };
    },
    stop: async () => {
      running?.stop.abort();
      await running?.ended;
      running = undefined;
    },
    plug: (...bundles) => {
      mkdirSync(at('prepared/stickpin'), { recursive: true });
      for (const bundle of bundles) cpSync(bundle, at(`prepared/stickpin/${basename(bundle)}`), { recursive: true });
      renameSync(at('prepared'), at('stick'));
    },
    unplug: () => {
      rmSync(at('pocket'), { recursive: true, force: true });
      renameSync(at('stick'), at('pocket'));
    },
    plugAgain: () => renameSync(at('pocket'), at('stick')),
    until: async (isIt, timeoutMs) => {
      let found: StatusReport | undefined;
      // Some are in force for a moment only.
      const watcher = (report: StatusReport) => {
        if (found === undefined && isIt(report)) found = report;
      };
      if (latest !== undefined) watcher(latest);
      watchers.add(watcher);
      try {
        return await eventually(() => {
          // What it looks at beside the report, as the log, may change without another report.
          if (latest !== undefined) watcher(latest);
          if (found !== undefined) return found;
          throw new Error(`not there yet; last status: ${latest?.status}`);
        }, timeoutMs);
      } finally {
        watchers.delete(watcher);
      }
    },
    rounds: async (count = 3) => {
      // Each round begins with a look: with one more, the effects of the last are done.
      for (let round = 0; round <= count; round += 1) {
        const before = looks;
        harness.daemon().engine.kick();
        await eventually(() => {
          if (looks === before) throw new Error(`no round began; last status: ${latest?.status}`);
        }, 20_000);
      }
    },
    dispose: async () => {
      await harness.stop();
      rmSync(base, { recursive: true, force: true });
    },
  };
  return harness;
}

async function harnessSettings(at: (name: string) => string, over: SettingsOverrides): Promise<Settings> {
  const defaults = await loadSettings({ fragments: [] }, new AbortController().signal);
  return {
    trust: { ...defaults.trust, keys_dir: at('keys.d'), ...over.trust },
    media: { ...defaults.media, detect: false, directories: [at('stick')], incoming: at('incoming'), ...over.media },
    runtime: { ...defaults.runtime, kind: 'embedded', ...over.runtime },
    crio: { ...defaults.crio, ...over.crio },
    registry: { ...defaults.registry, listen: '127.0.0.1:0', ...over.registry },
    preload: { ...defaults.preload, ...over.preload },
    retention: { ...defaults.retention, ...over.retention },
    serve: { ...defaults.serve, ...over.serve },
    lifecycle: { ...defaults.lifecycle, ...over.lifecycle },
    update: { ...defaults.update, ...over.update },
    streams: { ...defaults.streams, ...over.streams },
    hooks: { ...defaults.hooks, ...over.hooks },
    fleet: { ...defaults.fleet, ...over.fleet },
    history: { ...defaults.history, ...over.history },
    metrics: { ...defaults.metrics, ...over.metrics },
    paths: { state_dir: at('state'), run_dir: at('run'), ...over.paths },
  };
}
