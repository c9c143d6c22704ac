import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleInWork } from '../../domain/decide/release-effects.ts';
import { bytesDone } from '../../domain/report/report-changes.ts';
import type { Progress } from '../../domain/report/status/media-line.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import type { TransferMeter } from '../../ports/transfers.ts';

export interface TransferGauge {
  readonly clock: Clock;
  readonly meter: TransferMeter;
  readonly rate: RateGauge;
  /** Since when a transfer has waited for its medium. */
  waitingSince: number | undefined;
  /** When bytes were last sent, and their sum then. Times are monotonic milliseconds. */
  movedAt: number;
  movedBytes: number;
}

/** A runtime that pulls and has read no byte for this long counts as unpacking. */
const QUIET_MS = 2_000;
/** A read error comes some seconds before the signal that the stick was unplugged. */
const WAITED_MS = 5_000;

export function createTransferGauge(clock: Clock, meter: TransferMeter): TransferGauge {
  return { clock, meter, rate: createRateGauge(), waitingSince: undefined, movedAt: clock.monotonic(), movedBytes: 0 };
}

/** Call it about once a second while a task runs: the rate is measured between two calls. */
export function measureProgress(
  gauge: TransferGauge,
  running: readonly RunningTask[],
  assessment: Assessment,
  landedImages: readonly string[],
): Progress {
  const { meter, rate } = gauge;
  const now = gauge.clock.monotonic();
  const entry = bundleInWork({ running }, assessment);
  const flow = meter.flow(entry?.bundle.contents.layers.map(({ digest }) => digest) ?? []);
  const isOpen = flow.open > flow.awaitingMedium;
  rate.sample(meter.totalBytes(), now, isOpen);
  // Between two pulls no task runs for a moment. The rate is kept then.
  if (entry === undefined) rate.reset();
  const { doneBytes, totalBytes } =
    entry === undefined ? { doneBytes: 0, totalBytes: 0 } : bytesDone(entry, assessment, meter.sentBytes());
  const isPulling = running.some((task) => task.kind === 'pull' && task.online !== true);
  if (!isPulling || isOpen || flow.sentBytes !== gauge.movedBytes) gauge.movedAt = now;
  gauge.movedBytes = flow.sentBytes;
  const isQuiet = flow.sentBytes > 0 && now - gauge.movedAt >= QUIET_MS;
  const isComplete = totalBytes > 0 && doneBytes >= totalBytes;
  return {
    doneBytes,
    totalBytes,
    bytesPerSecond: rate.bytesPerSecond(),
    isUnpacking: isPulling && flow.open === 0 && (isQuiet || isComplete),
    waitingTransfers: waitingTransfers(gauge, now),
    landedImages,
  };
}

/** Zero before they have waited for {@link WAITED_MS}. */
function waitingTransfers(gauge: TransferGauge, now: number): number {
  const waiting = gauge.meter.waiting();
  gauge.waitingSince = waiting === 0 ? undefined : (gauge.waitingSince ?? now);
  return gauge.waitingSince === undefined || now - gauge.waitingSince < WAITED_MS ? 0 : waiting;
}

/** Of the newest second in the smoothed rate. */
const NEWEST_WEIGHT = 0.2;
/** A rate is given after this many seconds with a transfer, and after this many bytes. */
const MIN_MOVING_S = 3;
const MIN_BYTES = 1024 * 1024;

interface RateGauge {
  /** Time without a transfer does not count. @param atMs monotonic milliseconds */
  sample(totalBytes: number, atMs: number, isOpen: boolean): void;
  /** Smoothed over about ten seconds of transfer. */
  bytesPerSecond(): number | undefined;
  reset(): void;
}

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

/** Sums, so that the first reading does not dominate. */
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
