import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleInWork } from '../../domain/decide/activation.ts';
import { bytesDone } from '../../domain/report/progress.ts';
import type { Progress } from '../../domain/report/status-line.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { createRateGauge, type RateGauge } from './rate.ts';

/**
 * What is measured of transfers from one look at them to the next. Times are monotonic
 * milliseconds.
 */
export interface TransferGauge {
  readonly clock: Clock;
  readonly meter: TransferMeter;
  readonly rate: RateGauge;
  /** Since when a transfer has waited for its medium; undefined while none does. */
  waitingSince: number | undefined;
  /** When bytes moved last, and how many had been sent by then. */
  movedAt: number;
  movedBytes: number;
}

/** A runtime that pulls and has taken no byte for so long unpacks what it has. */
const QUIET_MS = 2_000;
/** A read error comes some seconds before the news that its stick was unplugged. */
const WAITED_MS = 5_000;

/** Nothing was measured yet. */
export function createTransferGauge(clock: Clock, meter: TransferMeter): TransferGauge {
  return { clock, meter, rate: createRateGauge(), waitingSince: undefined, movedAt: clock.monotonic(), movedBytes: 0 };
}

/**
 * How far the transfers are now. To be asked about once a second while something runs: the rate is
 * measured between two calls.
 */
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
  // Between two pulls nothing runs for a moment; the rate of the preload stays.
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

/** Transfers that wait for their medium, once they have done so for a while. */
function waitingTransfers(gauge: TransferGauge, now: number): number {
  const waiting = gauge.meter.waiting();
  gauge.waitingSince = waiting === 0 ? undefined : (gauge.waitingSince ?? now);
  return gauge.waitingSince === undefined || now - gauge.waitingSince < WAITED_MS ? 0 : waiting;
}
