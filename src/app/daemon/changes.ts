import { setTimeout as delay } from 'node:timers/promises';
import { loadSettings, type SettingsSources } from '../../config/load-settings.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { Engine } from '../../engine/loop/engine.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { ServiceNotifier } from '../../ports/node.ts';
import { watchConfig } from '../../runtime/config/config-watch.ts';
import type { TrustKeeper } from './trust/trust-keeper.ts';

interface StartAgainOptions {
  /**
   * Has systemd restart the service; a SIGTERM follows, which aborts `stop`. Undefined where no
   * systemd started the daemon.
   */
  readonly restart: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly stop: AbortController;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long systemd may take to answer, and then to send its SIGTERM. */
const ANSWER_MS = 10_000;

/**
 * Ends the daemon so that it starts with other settings. Never throws.
 *
 * It asks systemd for a restart, which begins at once. Where that is refused, or leads to nothing,
 * the daemon ends by itself, and `Restart=always` starts it.
 */
export async function startAgain({ restart, stop, clock, log }: StartAgainOptions): Promise<void> {
  if (restart !== undefined) {
    const { problem, err } = await restartProblem(restart, clock, stop.signal);
    if (stop.signal.aborted) return;
    log.warn({ err }, `systemd did not restart the service (${problem}), so that it ends by itself`);
  }
  stop.abort();
}

/** Why the service still runs. @param signal aborts with the SIGTERM */
async function restartProblem(
  restart: (signal: AbortSignal) => Promise<void>,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ readonly problem: string; readonly err?: unknown }> {
  try {
    await withDeadline('systemd, asked for a restart,', ANSWER_MS, signal, restart);
    await clock.sleep(ANSWER_MS, signal);
    return { problem: `it agreed, and sent no SIGTERM within ${ANSWER_MS} ms` };
  } catch (err) {
    return { problem: reasonOf(err), err };
  }
}

/**
 * How often the folder of keys is read without a change signal. Changes of permissions and mounts
 * give none.
 */
const REREAD_KEYS_MS = 30_000;

interface WatchedKeys {
  readonly settings: Settings;
  readonly trust: TrustKeeper;
  readonly engine: Pick<Engine, 'kick'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Reads the keys again when their folder changes, and every {@link REREAD_KEYS_MS}. Requests a
 * round when they changed.
 */
export function watchKeys({ settings, trust, engine, clock, log }: WatchedKeys): {
  reload: () => void;
  stop: () => void;
} {
  const stop = new AbortController();
  let seen = trust.revision();
  const taken = () => {
    const now = trust.revision();
    if (now !== seen) engine.kick();
    seen = now;
  };
  const reload = () => {
    trust.reload(stop.signal, taken).catch((error: unknown) => {
      if (!stop.signal.aborted) log.warn({ err: error }, `The keys could not be read again: ${reasonOf(error)}`);
    });
  };
  const unwatch = watchConfig([settings.trust.keys_dir], { ownPaths: [], log }, reload);
  const poll = async () => {
    while (!stop.signal.aborted) {
      await clock.sleep(REREAD_KEYS_MS, stop.signal);
      reload();
    }
  };
  poll().catch(() => undefined);
  return {
    reload,
    stop: () => {
      stop.abort();
      unwatch();
    },
  };
}

/** What writes a file may empty it first, and an empty file is valid. */
const SETTLE_MS = 200;

interface WatchSettingsOptions {
  /** Undefined while the settings are wrong from the start on: any valid ones are new. */
  readonly settings: Settings | undefined;
  readonly sources: SettingsSources;
  readonly log: Log;
  readonly notifier: ServiceNotifier;
  /** Called after a SIGHUP without a change of settings: check everything again. */
  readonly onReload: () => void;
  /**
   * Called once, for other, valid settings. The daemon must stop then, and systemd starts it with
   * them; sockets and mounts stay.
   */
  readonly onChanged: () => void;
  /** Called with why new settings are refused, and without once the files are valid again. */
  readonly onRefused?: (why?: string) => void;
}

/**
 * Reads the settings again when their files change and at SIGHUP. Invalid settings are reported,
 * and the current ones stay in use.
 */
export function watchSettings({
  settings,
  sources,
  log,
  notifier,
  onReload,
  onChanged,
  onRefused,
}: WatchSettingsOptions): Unsubscribe {
  const stop = new AbortController();
  const inForce = JSON.stringify(settings);
  let isChanged = false;
  const isOther = async () => JSON.stringify(await loadSettings(sources, stop.signal)) !== inForce;
  const look = async (): Promise<void> => {
    try {
      let isNew = await isOther();
      if (isNew) {
        await delay(SETTLE_MS, undefined, { signal: stop.signal });
        isNew = await isOther();
      }
      if (isChanged) return;
      onRefused?.();
      if (!isNew) return onReload();
      isChanged = true;
      log.info(
        { messageId: messageIds.configurationChanged },
        'The settings changed: starting again with the new ones',
      );
      onChanged();
    } catch (error) {
      if (stop.signal.aborted) return;
      onRefused?.(reasonOf(error));
      log.warn(
        { err: error, messageId: messageIds.configurationRejected },
        settings === undefined
          ? `The settings are still wrong: ${reasonOf(error)}`
          : `The new settings are not taken: ${reasonOf(error)}. Those from before stay in force`,
      );
    }
  };
  const onHangup = () => {
    notifier.reloading();
    void look().finally(() => notifier.ready());
  };
  process.on('SIGHUP', onHangup);
  const paths = sources.fragments.map((fragment) => ('file' in fragment ? fragment.file : fragment.folder));
  const unwatch = watchConfig(paths, { ownPaths: [], log }, () => void look());
  return () => {
    stop.abort();
    process.off('SIGHUP', onHangup);
    unwatch();
  };
}
