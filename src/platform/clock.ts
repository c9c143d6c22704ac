import { setTimeout as delay } from 'node:timers/promises';

/** Time as a value, so that nothing below the composition root asks the machine for it. */
export interface Clock {
  /** Wall clock in milliseconds since the epoch. May jump. */
  now(): number;
  /** Monotonic milliseconds, for durations and rates. Never goes back. */
  monotonic(): number;
  /**
   * Resolves after `ms` milliseconds; rejects with the signal's reason when `signal` aborts first.
   */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, { signal });
  },
};
