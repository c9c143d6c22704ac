import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createDaemon, type Daemon } from '../../../src/app/daemon/daemon.ts';
import type { DaemonOptions } from '../../../src/app/daemon/run-daemon.ts';
import type { BootTime, RuntimeImage } from '../../../src/domain/model/image.ts';
import type { NodeFacts } from '../../../src/domain/model/machine.ts';
import { parseReference } from '../../../src/domain/model/reference.ts';
import type { StatusReport } from '../../../src/domain/report/status-schema.ts';
import { defaultSettings, type Settings } from '../../../src/domain/settings/settings.ts';
import { bootTime, nodeFacts } from '../../../src/host/node-facts.ts';
import type { MediaProvider } from '../../../src/media/media-provider.ts';
import { type Clock, systemClock } from '../../../src/platform/clock.ts';
import type { UnitControl } from '../../../src/ports/node.ts';
import type { EventRow } from '../../../src/ports/state.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import {
  hostArch,
  installKeys,
  makeSampleBundle,
  type SampleBundle,
  type SampleBundleOptions,
  type SampleKey,
  sampleKey,
} from '../bundles/sample-bundle.ts';
import { eventually } from '../eventually.ts';
import { atEnd } from '../files/temporary-folder.ts';
import { createRecordingLog } from '../recording-log.ts';
import { silentNotifier } from '../silent-notifier.ts';

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
  /** Called with each report. */
  readonly onReport?: (report: StatusReport) => void;
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

const noUnits: UnitControl = { reloadUnit: async () => undefined, onUnitChange: () => () => undefined };
const unstopped = new AbortController().signal;

/**
 * A harness whose daemon is not started yet; the runtime is the embedded one unless the settings
 * say otherwise. It ends with the test; one that is made in `beforeAll` is disposed of by hand.
 */
export async function createDaemonHarness(options: HarnessOptions = {}): Promise<DaemonHarness> {
  const harness = new DaemonHarness(options);
  atEnd(() => harness.dispose());
  return harness;
}

/** The real daemon in this process, with a directory for a stick. */
export class DaemonHarness {
  /** Everything of it lies below. */
  readonly base = mkdtempSync(join(tmpdir(), 'stickpin-daemon-'));
  /** The first of those that are installed. */
  readonly key: SampleKey;
  readonly keysFolder = this.at('keys.d');
  /** Where the drop folder is. */
  readonly incoming = this.at('incoming');
  readonly settings: Settings;
  readonly log = createRecordingLog();
  /** Each STATUS line once, in order, since the harness was made. */
  readonly statuses: string[] = [];
  private latest: StatusReport | undefined;
  private readonly watchers = new Set<(report: StatusReport) => void>();
  private looks = 0;
  private running: { daemon: Daemon; stop: AbortController; ended: Promise<void> } | undefined;

  constructor(private readonly options: HarnessOptions) {
    const { keys = [sampleKey('factory-2026')], settings = {} } = options;
    this.key = keys[0] ?? sampleKey('factory-2026');
    installKeys(this.keysFolder, keys);
    mkdirSync(this.incoming);
    this.settings = harnessSettings((name) => this.at(name), settings);
  }

  /** A path of this name below {@link base}. */
  at(name: string): string {
    return join(this.base, name);
  }

  daemon(): Daemon {
    if (this.running === undefined) throw new Error('the daemon is not started');
    return this.running.daemon;
  }

  get engine(): Daemon['engine'] {
    return this.daemon().engine;
  }

  report(): StatusReport {
    if (this.latest === undefined) throw new Error('no report yet');
    return this.latest;
  }

  /** What the registry of the daemon answers to a pod with `imagePullPolicy: Always`. */
  async pullStatus(tag: string): Promise<number> {
    const started = this.log.lines.findLast(({ message }) => message.includes('its registry listens on'));
    const authority = started?.message.split(' ').at(-1);
    const token = readFileSync(join(this.settings.paths.state_dir, 'registry-token'), 'utf8').trim();
    const { repository, tag: name } = parseReference(tag);
    const accept = 'application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json';
    const url = `http://${authority}/v2/${token}/${repository}/manifests/${name}`;
    return (await fetch(url, { headers: { accept } })).status;
  }

  async images(): Promise<readonly RuntimeImage[]> {
    const seen = await this.daemon().observeRuntime(unstopped);
    if (seen.kind !== 'reachable') throw new Error(seen.reason);
    return seen.images;
  }

  /** Lines of the history, of all bundles or of one; those of one `kind` if it is given. */
  history(kind?: EventRow['kind'], bundle?: string): readonly EventRow[] {
    const rows = this.engine.history(bundle, 1_000);
    return rows.filter((row) => kind === undefined || row.kind === kind);
  }

  /** Makes a bundle below {@link base}, signed by {@link key} unless the options say otherwise. */
  make(options: Partial<SampleBundleOptions> = {}): Promise<SampleBundle> {
    return makeSampleBundle({ dir: this.at('factory'), keys: [this.key], ...options });
  }

  /** With bundles it plugs in a stick with them as soon as it is started. */
  async start(...bundles: readonly string[]): Promise<void> {
    const { clock = systemClock, boot = bootTime, units = noUnits, facts = nodeFacts(), ...others } = this.options;
    const { settings: _, keys: __, onReport: ___, providers, ...options } = others;
    const stop = new AbortController();
    const daemon = await createDaemon(
      {
        ...options,
        settings: this.settings,
        log: this.log,
        clock,
        node: { arch: hostArch, clockSynchronised: async () => false, facts: () => facts, boot: () => boot() },
        notifier: silentNotifier,
        units,
        providers: providers?.() ?? [],
        watchRuntime: (runtime) => this.watch(options.watchRuntime?.(runtime) ?? runtime),
        onStatus: (report) => this.take(report),
      },
      stop.signal,
    );
    this.running = { daemon, stop, ended: daemon.run(stop.signal) };
    if (bundles.length > 0) this.plug(...bundles);
  }

  /** SIGTERM's way: stops in order. The folder stays. */
  async stop(): Promise<void> {
    this.running?.stop.abort();
    await this.running?.ended;
    this.running = undefined;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Puts bundle directories under `stick/stickpin` and plugs the stick in at one stroke. */
  plug(...bundles: readonly string[]): void {
    mkdirSync(this.at('prepared/stickpin'), { recursive: true });
    for (const bundle of bundles) cpSync(bundle, this.at(`prepared/stickpin/${basename(bundle)}`), { recursive: true });
    renameSync(this.at('prepared'), this.at('stick'));
  }

  /** Pulls the stick out; what lay on it is kept for {@link plugAgain}. */
  unplug(): void {
    rmSync(this.at('pocket'), { recursive: true, force: true });
    renameSync(this.at('stick'), this.at('pocket'));
  }

  plugAgain(): void {
    renameSync(this.at('pocket'), this.at('stick'));
  }

  /** Pulls the stick out, and waits until that is seen. */
  async takeOut(): Promise<void> {
    this.unplug();
    await this.until(({ media }) => media.every(({ medium }) => !medium.endsWith('/stick')));
  }

  /** Resolves with the first report for which `isIt` holds, now or later. */
  async until(isIt: (report: StatusReport) => boolean, timeoutMs?: number): Promise<StatusReport> {
    let found: StatusReport | undefined;
    // Some are in force for a moment only.
    const watcher = (report: StatusReport) => {
      if (found === undefined && isIt(report)) found = report;
    };
    this.watchers.add(watcher);
    try {
      return await eventually(() => {
        // What it looks at beside the report, as the log, may change without another report.
        if (this.latest !== undefined) watcher(this.latest);
        if (found !== undefined) return found;
        throw new Error(`not there yet; last status: ${this.latest?.status}`);
      }, timeoutMs);
    } finally {
      this.watchers.delete(watcher);
    }
  }

  /** Waits until the first bundle is activated and nothing is under way. */
  activated(timeoutMs?: number): Promise<StatusReport> {
    return this.until(({ bundles, operation }) => bundles[0]?.phase === 'activated' && operation === 'idle', timeoutMs);
  }

  /** Plugs a stick in, and waits until the first bundle is activated and nothing is under way. */
  load(...bundles: readonly string[]): Promise<StatusReport> {
    this.plug(...bundles);
    return this.activated();
  }

  /** Asks for so many whole rounds, one after the other, and resolves after the last. */
  async rounds(count = 3): Promise<void> {
    // Each round begins with a look: with one more, the effects of the last are done.
    for (let round = 0; round <= count; round += 1) {
      const before = this.looks;
      this.engine.kick();
      await eventually(() => {
        if (this.looks === before) throw new Error(`no round began; last status: ${this.latest?.status}`);
      }, 20_000);
    }
  }

  /** Stops and removes everything. */
  async dispose(): Promise<void> {
    await this.stop();
    rmSync(this.base, { recursive: true, force: true });
  }

  private take(report: StatusReport): void {
    if (report.status !== this.statuses.at(-1)) this.statuses.push(report.status);
    this.latest = report;
    this.options.onReport?.(report);
    for (const watcher of this.watchers) watcher(report);
  }

  /** Counts the rounds. */
  private watch(runtime: RuntimeAdapter): RuntimeAdapter {
    const observe: RuntimeAdapter['observe'] = (signal) => {
      this.looks += 1;
      return runtime.observe(signal);
    };
    return { ...runtime, observe };
  }
}

function harnessSettings(at: (name: string) => string, over: SettingsOverrides): Settings {
  const own: SettingsOverrides = {
    trust: { keys_dir: at('keys.d') },
    media: { detect: false, directories: [at('stick')], incoming: at('incoming') },
    runtime: { kind: 'embedded' },
    registry: { listen: '127.0.0.1:0' },
    // However full the disk of this host is.
    preload: { min_free_percent: 0 },
    paths: { state_dir: at('state'), run_dir: at('run') },
  };
  const [given, overrides] = [own, over] as Record<string, object | undefined>[];
  const sections = Object.entries(defaultSettings);
  return Object.fromEntries(
    sections.map(([name, values]) => [name, { ...values, ...given?.[name], ...overrides?.[name] }]),
  ) as unknown as Settings;
}
