import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleInWork } from '../../domain/decide/release-effects.ts';
import { type ConditionMarks, conditionsOf, marksAfter, type NodeConditionType } from '../../domain/model/condition.ts';
import { judgeNodeConditions } from '../../domain/report/judge-conditions.ts';
import { isStick } from '../../domain/report/names.ts';
import { reportOf } from '../../domain/report/report.ts';
import { bytesDone, type Snapshot } from '../../domain/report/snapshot.ts';
import type { Progress } from '../../domain/report/status/media-line.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { Observer } from './observer.ts';
import type { Parts } from './parts.ts';

const STATUS_MS = 1_000;
const TROUBLE_MS = 60_000;

/** Reports the state of the node to systemd and to D-Bus clients. */
export class StatusPublisher {
  private readonly gauge: TransferGauge;
  private lastTrouble = { message: '', at: Number.NEGATIVE_INFINITY };
  private lastSticks = '';
  /** They are not kept over a restart. */
  private nodeMarks: ConditionMarks<NodeConditionType> = {};

  constructor(
    private readonly parts: Parts,
    private readonly observer: Observer,
  ) {
    this.gauge = new TransferGauge(parts.ports.clock, parts.ports.meter);
  }

  report(): StatusReport | undefined {
    const { media, clock } = this.parts.ports;
    const { snapshot: last, conditions, landed } = this.observer;
    if (last === undefined) return undefined;
    const { observed, memory, assessment } = last;
    const plugged = new Set(media.list().map(({ mediumId }) => mediumId));
    const kept = observed.media.filter(({ mediumId }) => plugged.has(mediumId));
    const known = new Set(observed.media.map(({ mediumId }) => mediumId));
    const now = this.underWay();
    const snapshot: Snapshot = {
      // A stick may have been plugged in or unplugged since the round.
      observed: {
        ...observed,
        media: [...kept, ...media.list().filter((one) => isStick(one) && !known.has(one.mediumId))],
      },
      memory: { ...memory, ...now },
      assessment: {
        ...assessment,
        adoptions: assessment.adoptions.filter(({ mediumId }) => plugged.has(mediumId)),
        rejections: assessment.rejections.filter(({ mediumId }) => plugged.has(mediumId)),
      },
    };
    const verdicts = judgeNodeConditions(snapshot);
    this.nodeMarks = marksAfter(this.nodeMarks, verdicts, clock.now());
    const progress = this.gauge.progress(now.running, assessment, [...landed]);
    return reportOf(snapshot, progress, conditions, conditionsOf(verdicts, this.nodeMarks));
  }

  /** Logs a failure and never throws, because a timer calls it too. @returns what was published */
  publish(): StatusReport | undefined {
    try {
      const current = this.report();
      if (current === undefined) return undefined;
      const { notifier, onStatus } = this.parts.ports;
      notifier.status(current.status);
      onStatus(current);
      return current;
    } catch (error) {
      this.logTrouble(`The status could not be published: ${reasonOf(error)}`, error);
      return undefined;
    }
  }

  /** Publishes when a stick was plugged in or out: the round that follows may take seconds. */
  mediaChanged(): void {
    const sticks = this.parts.ports.media.list().filter(isStick);
    const key = sticks.map(({ mediumId }) => mediumId).join();
    if (key !== this.lastSticks) this.publish();
    this.lastSticks = key;
  }

  /** Publishes once a second while a task or copy runs, until the returned function is called. */
  tick(): () => void {
    const ticker = setInterval(() => {
      const { running, keeping, copyingBytes, contentChecks, storage } = this.underWay();
      const isChecking = contentChecks?.running !== undefined || storage?.runningMs !== undefined;
      if (running.length > 0 || keeping.size > 0 || copyingBytes !== undefined || isChecking) this.publish();
    }, STATUS_MS);
    return () => clearInterval(ticker);
  }

  private underWay() {
    const { tasks, layerKeeper, keeping, pullChecker, contentChecker, storageKeeper } = this.parts;
    return {
      running: tasks.running(),
      copyingBytes: layerKeeper.copyingBytes(),
      keeping: new Map(keeping),
      pullChecks: pullChecker.checks(),
      contentChecks: contentChecker.checks(),
      storage: storageKeeper.syncs(),
    };
  }

  /** The same message at most once a minute. */
  logTrouble(message: string, error: unknown): void {
    const { clock, log } = this.parts.ports;
    const at = clock.monotonic();
    if (message === this.lastTrouble.message && at - this.lastTrouble.at < TROUBLE_MS) return;
    this.lastTrouble = { message, at };
    log.error({ err: error }, message);
  }
}

/** A runtime that pulls and has read no byte for this long counts as unpacking. */
const QUIET_MS = 2_000;
/** A read error comes before the signal that a stick was unplugged. */
const WAITED_MS = 5_000;
/** A stick may pause. */
const STALLED_MS = 30_000;

export class TransferGauge {
  private readonly rate = new RateGauge();
  /** Since when a transfer has waited for its medium. Times are monotonic milliseconds. */
  private waitingSince: number | undefined;
  /** When bytes were last sent, and their sum then. */
  private movedAt: number;
  private movedBytes = 0;

  constructor(
    private readonly clock: Clock,
    private readonly meter: TransferMeter,
  ) {
    this.movedAt = clock.monotonic();
  }

  /** Call it about once a second while a task runs: the rate is measured between two calls. */
  progress(running: readonly RunningTask[], assessment: Assessment, landedImages: readonly string[]): Progress {
    const { meter, rate } = this;
    const now = this.clock.monotonic();
    const entry = bundleInWork({ running }, assessment);
    const flow = meter.flow(entry?.bundle.contents.layers.map(({ digest }) => digest) ?? []);
    const isOpen = flow.open > flow.awaitingMedium;
    rate.sample(meter.totalBytes(), now, isOpen);
    // Between two pulls no task runs for a moment. The rate is kept then.
    if (entry === undefined) rate.reset();
    const { doneBytes, totalBytes } =
      entry === undefined ? { doneBytes: 0, totalBytes: 0 } : bytesDone(entry, assessment, meter.sentBytes());
    const isPulling = running.some((task) => task.kind === 'pull' && task.online !== true);
    if (!isPulling || isOpen || flow.sentBytes !== this.movedBytes) this.movedAt = now;
    this.movedBytes = flow.sentBytes;
    const isQuiet = flow.sentBytes > 0 && now - this.movedAt >= QUIET_MS;
    const isComplete = totalBytes > 0 && doneBytes >= totalBytes;
    return {
      doneBytes,
      totalBytes,
      bytesPerSecond: rate.bytesPerSecond(),
      isUnpacking: isPulling && flow.open === 0 && (isQuiet || isComplete),
      ...this.waiting(entry === undefined ? 0 : flow.awaitingMedium, now),
      landedImages,
    };
  }

  /** @param waiting transfers of the bundle in work: what another one waits for does not count */
  private waiting(waiting: number, now: number): Pick<Progress, 'waitingTransfers' | 'isStalled'> {
    this.waitingSince = waiting === 0 ? undefined : (this.waitingSince ?? now);
    const waitedMs = now - (this.waitingSince ?? now);
    return { waitingTransfers: waitedMs < WAITED_MS ? 0 : waiting, isStalled: waitedMs >= STALLED_MS };
  }
}

/** The weight of the newest second in the smoothed rate. */
const NEWEST_WEIGHT = 0.2;
/** A rate is given after this many seconds with a transfer, and after this many bytes. */
const MIN_MOVING_S = 3;
const MIN_BYTES = 1024 * 1024;
/** Sums, so that the first reading does not dominate. */
const NOTHING_SEEN = { bytes: 0, seconds: 0, rate: 0, weight: 0 };

export class RateGauge {
  private last: { readonly totalBytes: number; readonly atMs: number } | undefined;
  private seen = NOTHING_SEEN;

  /** Time without a transfer does not count. @param atMs monotonic milliseconds */
  sample(totalBytes: number, atMs: number, isOpen: boolean): void {
    const { last, seen } = this;
    const seconds = last === undefined ? 0 : (atMs - last.atMs) / 1000;
    if (last !== undefined && seconds < 0.5) return;
    const bytes = totalBytes - (last?.totalBytes ?? totalBytes);
    this.last = { totalBytes, atMs };
    if (last === undefined || (!isOpen && bytes <= 0)) return;
    const weight = 1 - (1 - NEWEST_WEIGHT) ** seconds;
    this.seen = {
      bytes: seen.bytes + bytes,
      seconds: seen.seconds + seconds,
      rate: seen.rate * (1 - weight) + (bytes / seconds) * weight,
      weight: seen.weight * (1 - weight) + weight,
    };
  }

  /** Smoothed over about ten seconds of transfer. */
  bytesPerSecond(): number | undefined {
    const { bytes, seconds, rate, weight } = this.seen;
    return seconds < MIN_MOVING_S || bytes < MIN_BYTES ? undefined : rate / weight;
  }

  reset(): void {
    this.last = undefined;
    this.seen = NOTHING_SEEN;
  }
}
