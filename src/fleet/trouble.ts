import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';

/** Something that is wrong for a while. */
export interface Trouble {
  /** The sentence, while it lasts. */
  current(): string | undefined;
  /**
   * It is so now. Logged once, when it begins or has lasted: tries that fail in another way change
   * what `current` says.
   *
   * @returns whether that changed
   */
  begin(text: string, error?: unknown): boolean;
  /** It is over; logged with `text` if its begin was. @returns whether it had begun */
  end(text: string): boolean;
}

/**
 * What is awaited at each start is logged when it is still so after this time, in milliseconds: the
 * daemon, the API server and the Node come up meanwhile.
 */
export const USUAL_MS = 30_000;

/**
 * A {@link Trouble} that has not begun.
 *
 * @param quiet how long it may last before a further `begin` logs it; default: it is logged at once
 */
export function createTrouble(log: Log, quiet?: { readonly clock: Clock; readonly forMs: number }): Trouble {
  let current: string | undefined;
  let sinceMs = 0;
  let isTold = false;
  return {
    current: () => current,
    begin: (text, error) => {
      const before = current;
      current = text;
      const nowMs = quiet?.clock.monotonic() ?? 0;
      if (before === undefined) sinceMs = nowMs;
      if (!isTold && nowMs - sinceMs >= (quiet?.forMs ?? 0)) {
        isTold = true;
        log.warn({ ...(error !== undefined && { err: error }) }, text);
      }
      return before !== text;
    },
    end: (text) => {
      if (current === undefined) return false;
      current = undefined;
      if (isTold) log.info({}, text);
      isTold = false;
      return true;
    },
  };
}
