/** Weight of the newest second in the smoothed rate. */
const NEWEST_WEIGHT = 0.2;

/** A rate in bytes a second, smoothed over some ten seconds. */
export interface RateGauge {
  /** Takes a reading of an ever growing counter at a monotonic time in milliseconds. */
  sample(totalBytes: number, atMs: number): void;
  /** Undefined until two readings at least half a second apart were taken. */
  bytesPerSecond(): number | undefined;
  /** Forgets everything: what follows is another transfer. */
  reset(): void;
}

/** A gauge without a reading. */
export function createRateGauge(): RateGauge {
  let last: { totalBytes: number; atMs: number } | undefined;
  let rate: number | undefined;
  return {
    sample: (totalBytes, atMs) => {
      if (last === undefined) {
        last = { totalBytes, atMs };
        return;
      }
      const seconds = (atMs - last.atMs) / 1000;
      if (seconds < 0.5) return;
      const newest = (totalBytes - last.totalBytes) / seconds;
      const weight = 1 - (1 - NEWEST_WEIGHT) ** seconds;
      rate = rate === undefined ? newest : rate + (newest - rate) * weight;
      last = { totalBytes, atMs };
    },
    bytesPerSecond: () => rate,
    reset: () => {
      last = undefined;
      rate = undefined;
    },
  };
}
