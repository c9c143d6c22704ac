import { setTimeout as delay } from 'node:timers/promises';

/** Only the composition root reads the clock of the machine. */
export interface Clock {
  /** Milliseconds since the epoch. May jump. */
  now(): number;
  /** Milliseconds, for durations and rates. Never decreases. */
  monotonic(): number;
  /** Rejects with the signal's reason when `signal` aborts first. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** A longer one fires at once (Node.js, `setTimeout()`). */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    let leftMs = ms;
    do {
      await delay(Math.min(leftMs, LONGEST_TIMER_MS), undefined, { signal });
      leftMs -= LONGEST_TIMER_MS;
    } while (leftMs > 0);
  },
};
