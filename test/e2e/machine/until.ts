import { setTimeout as delay } from 'node:timers/promises';

/**
 * How long a test waits for what must come. Beside another guest on a busy host, a start of Node
 * took more than a minute, and a runtime did not answer for half a minute.
 */
export const patienceMs = 480_000;

/** How long `until()` tries. */
export interface UntilOptions {
  /** Milliseconds until it gives up; default {@link patienceMs}. */
  readonly timeoutMs?: number;
}

/**
 * Tries `probe` until it returns something other than undefined or false, and returns that.
 *
 * @throws Error after the deadline, with `what` was waited for and what the last try threw, if it
 * threw.
 */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined | false>,
  options: UntilOptions = {},
): Promise<T> {
  const { timeoutMs = patienceMs } = options;
  const startedAt = performance.now();
  const deadline = startedAt + timeoutMs;
  for (;;) {
    let thrown: unknown;
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      thrown = error;
    }
    if (performance.now() > deadline) {
      const cause = thrown === undefined ? undefined : { cause: thrown };
      const last = thrown instanceof Error ? `; last: ${thrown.message}` : '';
      throw new Error(`waited for ${timeoutMs} ms in vain: ${what}${last}`, cause);
    }
    await delay(pauseMs(performance.now() - startedAt));
  }
}

/**
 * A try costs an emulated processor up to half a second, which what is waited for lacks: the longer
 * the wait, the fewer of them.
 */
function pauseMs(waitedMs: number): number {
  return Math.min(1_000, Math.max(150, waitedMs / 20));
}
