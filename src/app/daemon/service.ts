import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ApiService } from '../../api/service.ts';
import { NODE_SOURCES, type SettingsSources } from '../../config/load-settings.ts';
import { keepSettings, loadUsableSettings } from '../../config/usable-settings.ts';
import { statusText } from '../../domain/report/line.ts';
import { startFaultLine } from '../../domain/report/reasons/node-lines.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { SystemBus } from '../../host/bus/system-bus.ts';
import { SyncProgram } from '../../host/disk-sync.ts';
import { SystemdHookRunner } from '../../host/hook-runner.ts';
import { type ClosableLog, createLog } from '../../host/log.ts';
import { bootTime, goArch, isClockSynchronized, nodeFacts, rememberClockAnswer } from '../../host/node-facts.ts';
import { createServiceNotifier, type SystemdNotifier, takeActivatedSockets } from '../../host/notify.ts';
import { nameProcess } from '../../host/process-name.ts';
import { StaticPods } from '../../host/static-pods.ts';
import { SystemdManager } from '../../host/systemd-manager.ts';
import { restartOwnUnit } from '../../host/units.ts';
import { DeviceMedia } from '../../media/device/device-media.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { sentence } from '../../platform/plain-text.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import { exitCodeOf } from '../../store/files/folder-lock.ts';
import { DaemonBackend } from './api-backend.ts';
import { startAgain, watchSettings } from './changes.ts';
import { AGETTY_RELOAD } from './console-file.ts';
import { createDaemon, type Daemon } from './daemon.ts';
import type { DaemonOptions } from './run-daemon.ts';

/**
 * When an effect runs longer than this, the loop is stuck, and systemd restarts the daemon. Calls
 * to systemd and the runtime have shorter deadlines. Media, which may be much slower, are not read
 * in the loop.
 */
const STUCK_MS = 2 * 60_000;

/** A daemon that runs for so long has started well. */
const STEADY_MS = 2 * 60_000;

interface Service {
  readonly settings: Settings;
  /** What was wrong in the sources at the start: `settings` lack it, and the daemon only keeps. */
  readonly fault: string | undefined;
  readonly sources: SettingsSources;
  readonly log: ClosableLog;
  /** Aborted to stop the service. */
  readonly stop: AbortController;
  readonly documentWorker: URL;
  readonly notifier: SystemdNotifier;
  /** The daemon whose loop the watchdog follows, once there is one. */
  readonly watched: { daemon?: Daemon };
}

async function serve(service: Service): Promise<void> {
  const { settings, log, stop, notifier, watched } = service;
  const bus = new SystemBus({ clock: systemClock, log, env: process.env });
  // A second connection: calls of other users never stand before the answers of systemd.
  const apiBus = new SystemBus({ clock: systemClock, log, env: process.env, purpose: 'for the D-Bus API' });
  let settingsFault = service.fault;
  const backend = new DaemonBackend(
    () => watched.daemon,
    () => (service.fault === undefined ? undefined : settingsFault),
  );
  try {
    const options = {
      ...nodeOptions(service, bus, () => settingsFault),
      notifier,
      // Without systemd no ExecStopPost= runs.
      keepsMirrors: notifier.isStartedBySystemd,
      onStatus: (report: StatusReport) => backend.published(report),
    };
    const daemon = await createDaemon(options, stop.signal);
    watched.daemon = daemon;
    await startBus(bus, log, stop.signal);
    // The connection is retried; the other bus has logged the failure.
    await apiBus.start(stop.signal).catch(() => undefined);
    const api = new ApiService(apiBus, bus, backend, systemClock, log);
    const ended = new AbortController();
    const { kick } = daemon.engine;
    const onRefused = (why?: string) => {
      settingsFault = why ?? service.fault;
      kick();
    };
    const unwatch = watchOwnSettings(service, { bus, onReload: kick, onRefused });
    void forgetFailedStarts(settings, log, ended.signal);
    try {
      await daemon.run(stop.signal);
    } finally {
      ended.abort();
      unwatch();
      await api.dispose();
    }
  } finally {
    apiBus.close();
    bus.close();
  }
}

/** Takes other settings by a restart, which systemd is asked for where it started the daemon. */
function watchOwnSettings(
  { settings, fault, sources, log, stop, notifier }: Service,
  { bus, ...listeners }: { bus: SystemBus; onReload: () => void; onRefused: (why?: string) => void },
): Unsubscribe {
  const restart = notifier.isStartedBySystemd ? (signal: AbortSignal) => restartOwnUnit(bus, signal) : undefined;
  const onChanged = () => void startAgain({ restart, stop, clock: systemClock, log });
  const inForce = fault === undefined ? settings : undefined;
  return watchSettings({ settings: inForce, sources, log, notifier, onChanged, ...listeners });
}

/**
 * Forgets earlier failed starts, which `keep-mirrors` counts, after the daemon has run for a while.
 * Never throws.
 */
async function forgetFailedStarts({ paths }: Settings, log: ClosableLog, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(STEADY_MS, signal);
    await rm(join(paths.run_dir, 'failed-starts'), { force: true });
  } catch (error) {
    if (!signal.aborted) log.warn({ err: error }, `Earlier failed starts stay counted: ${reasonOf(error)}`);
  }
}

function nodeOptions(
  { settings, fault, log, documentWorker }: Service,
  bus: SystemBus,
  settingsFault: () => string | undefined,
): Omit<DaemonOptions, 'notifier' | 'keepsMirrors' | 'onStatus'> {
  const [socket] = takeActivatedSockets(process.env);
  const manager = new SystemdManager(bus);
  const devices = new DeviceMedia({
    units: manager,
    log,
    mountDirectory: join(settings.paths.run_dir, 'media'),
    filesystems: settings.media.filesystems,
  });
  return {
    settings,
    log,
    clock: systemClock,
    units: manager,
    agettyReload: AGETTY_RELOAD,
    disk: new SyncProgram(),
    hookRunner: new SystemdHookRunner(bus, join(settings.paths.run_dir, 'hooks')),
    staticPods: new StaticPods(settings.runtime.static_pods),
    providers: settings.media.detect && fault === undefined ? [devices] : [],
    registryFd: socket?.fd,
    node: {
      arch: goArch(),
      clockSynchronised: rememberClockAnswer((signal) => isClockSynchronized(bus, signal), systemClock),
      facts: () => {
        const keepsOnly = fault === undefined ? undefined : (true as const);
        return { ...nodeFacts(), ...defined({ settingsFault: settingsFault(), keepsOnly }) };
      },
      boot: () => bootTime(),
    },
    documentWorker,
  };
}

/**
 * Connects to the system bus. The daemon also runs without it, and the connection is tried again.
 */
async function startBus(bus: SystemBus, log: ClosableLog, signal: AbortSignal): Promise<void> {
  await bus.start(signal).catch((error: unknown) => {
    const message = `${sentence(reasonOf(error))} No stick is detected before it answers`;
    log.warn({ err: error, messageId: messageIds.busLost }, message);
  });
}

/**
 * `--config FILE`, any number of times. These files are read after the node's fragments and
 * override them.
 */
function sourcesOf(args: readonly string[]): SettingsSources {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', multiple: true } } });
  return { fragments: [...NODE_SOURCES.fragments, ...(values.config ?? []).map((file) => ({ file, required: true }))] };
}

/** The first folder of `StateDirectory=`, which no setting moves. */
function fixedFolder({ STATE_DIRECTORY }: NodeJS.ProcessEnv): string | undefined {
  return STATE_DIRECTORY?.split(':')[0];
}

function reportWrongSettings(log: ClosableLog, fault: AppError): void {
  const message = `The settings are wrong: ${sentence(fault.message)} Until they are corrected, stickpin keeps pins and mirrors and answers pulls, and changes nothing`;
  log.error({ err: fault, messageId: messageIds.configurationRejected }, message);
}

/**
 * The program of `stickpin.service`: settings, log, bus and signals. `daemon.ts` builds the daemon
 * itself. Resolves to the exit code.
 *
 * @param args the arguments after the program's name
 * @param documentWorker the program that reads large documents in a thread
 */
export async function runService(args: readonly string[], documentWorker: URL): Promise<number> {
  nameProcess('stickpin');
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  const watched: Service['watched'] = {};
  const healthy = () => (watched.daemon?.engine.idleMs() ?? 0) < STUCK_MS;
  const notifier = await createServiceNotifier({ env: process.env, log, clock: systemClock, healthy });
  try {
    const sources = sourcesOf(args);
    const folder = fixedFolder(process.env);
    const { settings, fault, file } = await loadUsableSettings(sources, folder, stop.signal);
    if (fault !== undefined) reportWrongSettings(log, fault);
    if (folder !== undefined && file !== undefined) {
      await keepSettings(folder, file, stop.signal).catch((error: unknown) =>
        log.warn({ err: error }, `A start with wrong settings would not find those of now: ${reasonOf(error)}`),
      );
    }
    await serve({
      settings: fault === undefined ? settings : { ...settings, history: { ...settings.history, keep: 'keep' } },
      fault: fault?.message,
      sources,
      log,
      stop,
      documentWorker,
      notifier,
      watched,
    });
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error({ err: error, messageId: messageIds.configurationRejected }, `stickpin can't start: ${reasonOf(error)}`);
    const code = error instanceof AppError ? error.code : undefined;
    notifier.status(statusText(startFaultLine(code, reasonOf(error))));
    return exitCodeOf(error);
  } finally {
    notifier.dispose();
    log.close();
  }
}
