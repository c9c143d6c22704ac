import type { Condition } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { reportOf, type StatusReport } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Memory } from '../../domain/state/memory.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { MediaView } from '../../ports/media.ts';
import type { ServiceNotifier } from '../../ports/node.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { createTransferGauge, measureProgress, type TransferGauge } from './transfer-progress.ts';

/** What {@link createStatusPublisher} reports, and to whom. */
export interface StatusDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: TransferMeter;
  readonly notifier: Pick<ServiceNotifier, 'status'>;
  readonly onStatus: (report: StatusReport) => void;
  readonly media: Pick<MediaView, 'list'>;
  /** What is under way now. */
  readonly underWay: () => Pick<Memory, 'running' | 'copyingBytes' | 'keeping'>;
  /** References of images that were pulled since the last round looked at the runtime. */
  readonly landed: () => readonly string[];
  /** What the last round saw and concluded; undefined before the first. */
  readonly seen: () => Seen | undefined;
}

interface Seen extends Snapshot {
  readonly conditions: ReadonlyMap<BundleId, readonly Condition[]>;
}

/** Reports the state of the node to everyone who listens. */
export interface StatusPublisher {
  /**
   * The state as of the last round, with what is under way now; undefined before the first round.
   */
  report(): StatusReport | undefined;
  /**
   * Publishes the report. Never throws, since it is also called by a timer: a failure is logged.
   */
  publish(): void;
  /**
   * Publishes once a second while something is under way, until the returned function is called.
   */
  tick(): () => void;
  /** Logs trouble of the daemon itself, the same message once a minute. */
  logTrouble(message: string, error: unknown): void;
}

/** What a publisher works on, and what it remembers. */
interface Publishing extends StatusDependencies {
  readonly gauge: TransferGauge;
  lastTrouble: { readonly message: string; readonly at: number };
}

/** Pause between two reports while something is under way. */
const STATUS_MS = 1_000;
/** The same trouble is logged at most so often. */
const TROUBLE_MS = 60_000;

/** A publisher that has published nothing yet. */
export function createStatusPublisher(deps: StatusDependencies): StatusPublisher {
  const publishing: Publishing = {
    ...deps,
    gauge: createTransferGauge(deps.clock, deps.meter),
    lastTrouble: { message: '', at: Number.NEGATIVE_INFINITY },
  };
  return {
    report: () => report(publishing),
    publish: () => publish(publishing),
    tick: () => tick(publishing),
    logTrouble: (message, error) => logTrouble(publishing, message, error),
  };
}

function report({ seen, media, underWay, gauge, landed }: Publishing): StatusReport | undefined {
  const last = seen();
  if (last === undefined) return undefined;
  const { observed, memory, assessment, conditions } = last;
  const plugged = new Set(media.list().map(({ mediumId }) => mediumId));
  const now = underWay();
  const snapshot: Snapshot = {
    // A stick may be unplugged during a round.
    observed: { ...observed, media: observed.media.filter(({ mediumId }) => plugged.has(mediumId)) },
    memory: { ...memory, ...now },
    assessment,
  };
  return reportOf(snapshot, measureProgress(gauge, now.running, assessment, landed()), conditions);
}

function publish(publishing: Publishing): void {
  try {
    const current = report(publishing);
    if (current === undefined) return;
    publishing.notifier.status(current.status);
    publishing.onStatus(current);
  } catch (error) {
    logTrouble(publishing, `The status could not be told: ${reasonOf(error)}`, error);
  }
}

function tick(publishing: Publishing): () => void {
  const ticker = setInterval(() => {
    const { running, keeping, copyingBytes } = publishing.underWay();
    if (running.length > 0 || keeping.size > 0 || copyingBytes !== undefined) publish(publishing);
  }, STATUS_MS);
  return () => clearInterval(ticker);
}

function logTrouble(publishing: Publishing, message: string, error: unknown): void {
  const { lastTrouble, clock, log } = publishing;
  const at = clock.monotonic();
  if (message === lastTrouble.message && at - lastTrouble.at < TROUBLE_MS) return;
  publishing.lastTrouble = { message, at };
  log.error({ err: error }, message);
}
