import type { Settings } from '../../../domain/settings/settings.ts';
import type { Engine } from '../../../engine/loop/engine.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { watchConfig } from '../../../runtime/config/config-watch.ts';
import type { TrustKeeper } from '../trust/trust-keeper.ts';

/**
 * How often the folder of keys is read without a change signal. Changes of permissions and mounts
 * give none.
 */
const REREAD_KEYS_MS = 30_000;

/** The adapters of {@link watchKeys}. */
export interface WatchedKeys {
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
