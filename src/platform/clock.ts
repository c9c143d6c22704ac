import { setTimeout as delay } from 'node:timers/promises';

/** The clock as a value. Only the composition root reads the clock of the machine. */
export interface Clock {
  /** Wall clock in milliseconds since the epoch. May jump. */
  now(): number;
  /** Monotonic milliseconds, for durations and rates. Never decreases. */
  monotonic(): number;
  /**
   * Resolves after `ms` milliseconds; rejects with the signal's reason when `signal` aborts first.
   */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, { signal });
  },
};
