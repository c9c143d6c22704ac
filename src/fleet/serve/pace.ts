import type { Clock } from '../../platform/clock.ts';

/** Keeps all nodes together below a rate. */
export interface Pace {
  /** Resolves when `bytes` may be sent. Callers take turns. */
  take(bytes: number, signal: AbortSignal): Promise<void>;
}

/** After a pause. */
const BURST_MS = 250;

/** @param rate in bytes per second (`fleet.rate`) */
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
