import type { Clock } from '../platform/clock.ts';
import type { Log, LogFields } from '../platform/log.ts';

/** Says the same thing about the same peer once, however often it happens. */
export interface TellOnce {
  /** Logs a warning, unless the same was said about `peer` within the last hour. */
  warn(peer: string, cause: string, fields: LogFields, message: string): void;
  /** The trouble with `peer` is over: the next time it is said again. */
  over(peer: string): void;
}

/** What still lasts is said again after this time. */
const AGAIN_MS = 60 * 60_000;

/** Peers and causes that are remembered. Strangers can make up any number of them. */
const MOST_REMEMBERED = 1_000;

/** Makes a {@link TellOnce} that has said nothing. */
export function createTellOnce(log: Log, clock: Clock): TellOnce {
  const told = new Map<string, Map<string, number>>();
  return {
    warn: (peer, cause, fields, message) => {
      const causes = told.get(peer) ?? new Map<string, number>();
      const before = causes.get(cause);
      if (before !== undefined && clock.monotonic() - before < AGAIN_MS) return;
      const [oldest] = told.keys();
      if (told.size >= MOST_REMEMBERED && oldest !== undefined) told.delete(oldest);
      causes.set(cause, clock.monotonic());
      told.set(peer, causes);
      log.warn(fields, message);
    },
    over: (peer) => {
      told.delete(peer);
    },
  };
}
