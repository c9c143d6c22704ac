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

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: async (ms, signal) => {
    await delay(ms, undefined, { signal });
  },
};
