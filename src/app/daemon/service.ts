import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createApiService } from '../../api/service.ts';
import { loadSettings, NODE_SOURCES, type SettingsSources } from '../../config/load-settings.ts';
import type { Settings } from '../../config/schema.ts';
import { createSystemBus } from '../../dbus/system-bus.ts';
import { type ClosableLog, createLog } from '../../host/log/log.ts';
import { bootTime, goArch, isClockSynchronized, rememberClockAnswer } from '../../host/machine.ts';
import { createServiceNotifier } from '../../host/notify/notify.ts';
import { takeActivatedSockets } from '../../host/systemd/activation.ts';
import { createSystemdManager } from '../../host/systemd/systemd-manager.ts';
import { createDeviceMedia } from '../../media/device/device-media.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { createApiBackend } from './api-backend.ts';
import { createDaemon, type Daemon } from './daemon.ts';
import { watchSettings } from './watch-settings.ts';

/**
 * A single effect that has not ended for this long means that the loop is stuck; systemd then
 * restarts the daemon. Nothing is read from a medium within the loop, which may take much longer,
 * and what asks systemd or the runtime has a shorter deadline.
 */
const STUCK_MS = 2 * 60_000;

async function serve(
  settings: Settings,
  sources: SettingsSources,
  log: ClosableLog,
  stop: AbortController,
  documentWorker: URL,
): Promise<void> {
  const [socket] = takeActivatedSockets(process.env);
  const bus = createSystemBus({ clock: systemClock, log, env: process.env });
  const manager = createSystemdManager({ bus });
  let daemon: Daemon | undefined;
  const notifier = await createServiceNotifier({
    env: process.env,
    log,
    healthy: () => (daemon?.engine.idleMs() ?? 0) < STUCK_MS,
  });
  const backend = createApiBackend(() => daemon);
  try {
    const devices = createDeviceMedia({
      units: manager,
      log,
      mountDirectory: join(settings.paths.run_dir, 'media'),
      filesystems: settings.media.filesystems,
    });
    daemon = await createDaemon(
      {
        settings,
        log,
        clock: systemClock,
        notifier,
        units: manager,
        providers: settings.media.detect ? [devices] : [],
        registryFd: socket?.fd,
        node: {
          arch: goArch(),
          clockSynchronised: rememberClockAnswer((signal) => isClockSynchronized(bus, signal), systemClock),
          boot: () => bootTime(),
        },
        onStatus: backend.published,
        documentWorker,
      },
      stop.signal,
    );
    await bus.start(stop.signal).catch((error: unknown) => {
      log.warn(
        { err: error, messageId: messageIds.busLost },
        `${reasonOf(error)}; no stick is detected before it answers`,
      );
    });
    const api = createApiService({ bus, backend, clock: systemClock, log });
    const unwatch = watchSettings({
      settings,
      sources,
      log,
      notifier,
      onReload: () => daemon?.engine.kick(),
      onChanged: () => stop.abort(),
    });
    await daemon.run(stop.signal);
    unwatch();
    await api.dispose();
  } finally {
    notifier.dispose();
    bus.close();
  }
}

/**
 * `--config FILE`, any number of times: read after the node's own fragments, so that they win over
 * these.
 */
function sourcesOf(args: readonly string[]): SettingsSources {
  const { values } = parseArgs({ args: [...args], options: { config: { type: 'string', multiple: true } } });
  return { fragments: [...NODE_SOURCES.fragments, ...(values.config ?? []).map((file) => ({ file, required: true }))] };
}

/**
 * What `stickpin.service` runs: settings, log, bus and signals; the daemon itself is composed in
 * `daemon.ts`. Resolves to the exit code.
 *
 * @param args those behind the program's name
 * @param documentWorker the program that reads large documents in a thread
 */
export async function runService(args: readonly string[], documentWorker: URL): Promise<number> {
  const log = await createLog({ env: process.env });
  const stop = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => stop.abort());
  try {
    const sources = sourcesOf(args);
    await serve(await loadSettings(sources, stop.signal), sources, log, stop, documentWorker);
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 0;
    log.error({ err: error, messageId: messageIds.configurationRejected }, `stickpin can't start: ${reasonOf(error)}`);
    return 1;
  } finally {
    log.close();
  }
}
