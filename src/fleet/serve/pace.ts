import type { Clock } from '../../platform/clock.ts';

/** Keeps what is given to all nodes together below a rate. */
export interface Pace {
  /** Resolves when `bytes` may be sent. Callers take turns. */
  take(bytes: number, signal: AbortSignal): Promise<void>;
}

/** After a pause so much time's worth may be sent at once. */
const BURST_MS = 250;

/** Makes a {@link Pace}. @param rate in bytes per second (`fleet.rate`) */
export function createPace(rate: number | 'unlimited', clock: Clock): Pace {
  if (rate === 'unlimited') return { take: async () => undefined };
  let nextMs = Number.NEGATIVE_INFINITY;
  return {
    take: async (bytes, signal) => {
      const nowMs = clock.monotonic();
      nextMs = Math.max(nextMs, nowMs - BURST_MS) + (bytes / rate) * 1_000;
      if (nextMs > nowMs) await clock.sleep(nextMs - nowMs, signal);
    },
  };
}
