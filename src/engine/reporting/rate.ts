/** Weight of the newest second in the smoothed rate. */
const NEWEST_WEIGHT = 0.2;
/** A rate is given only after this many seconds with a transfer, and only after this many bytes. */
const MIN_MOVING_S = 3;
const MIN_BYTES = 1024 * 1024;

/** A rate in bytes per second, smoothed over about ten seconds of transfer. */
export interface RateGauge {
  /**
   * Takes a reading of a counter that only grows. Time without a transfer does not count, for
   * example while the runtime unpacks. @param atMs monotonic milliseconds @param isOpen whether a
   * transfer is open
   */
  sample(totalBytes: number, atMs: number, isOpen: boolean): void;
  /** Undefined until there were some seconds of transfer and some bytes. */
  bytesPerSecond(): number | undefined;
  /** Forgets all readings, before another transfer. */
  reset(): void;
}

/** Creates a gauge without a reading. */
export function createRateGauge(): RateGauge {
  let last: { totalBytes: number; atMs: number } | undefined;
  let seen = NOTHING_SEEN;
  return {
    sample: (totalBytes, atMs, isOpen) => {
      if (last === undefined) {
        last = { totalBytes, atMs };
        return;
      }
      const seconds = (atMs - last.atMs) / 1000;
      if (seconds < 0.5) return;
      const bytes = totalBytes - last.totalBytes;
      last = { totalBytes, atMs };
      if (isOpen || bytes > 0) seen = withReading(seen, bytes, seconds);
    },
    bytesPerSecond: () => (seen.seconds < MIN_MOVING_S || seen.bytes < MIN_BYTES ? undefined : seen.rate / seen.weight),
    reset: () => {
      last = undefined;
      seen = NOTHING_SEEN;
    },
  };
}

/**
 * `rate` is the sum of the weighted rates and `weight` the sum of their weights. So the first
 * reading does not dominate.
 */
const NOTHING_SEEN = { bytes: 0, seconds: 0, rate: 0, weight: 0 };

function withReading(seen: typeof NOTHING_SEEN, bytes: number, seconds: number): typeof NOTHING_SEEN {
  const weight = 1 - (1 - NEWEST_WEIGHT) ** seconds;
  return {
    bytes: seen.bytes + bytes,
    seconds: seen.seconds + seconds,
    rate: seen.rate * (1 - weight) + (bytes / seconds) * weight,
    weight: seen.weight * (1 - weight) + weight,
  };
}
