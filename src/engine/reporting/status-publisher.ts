import {
  type Condition,
  type ConditionMarks,
  conditionsOf,
  marksAfter,
  type NodeConditionType,
} from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { judgeNodeConditions } from '../../domain/report/node-conditions.ts';
import { reportOf } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Memory } from '../../domain/state/memory.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { MediaView } from '../../ports/media.ts';
import type { ServiceNotifier } from '../../ports/node.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { TransferGauge } from './transfer-progress.ts';

interface StatusOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: TransferMeter;
  readonly notifier: Pick<ServiceNotifier, 'status'>;
  readonly onStatus: (report: StatusReport) => void;
  readonly media: Pick<MediaView, 'list'>;
  readonly underWay: () => Pick<Memory, 'running' | 'copyingBytes' | 'keeping' | 'pullChecks' | 'contentChecks'>;
  /** Pulled after the last observation of the runtime. */
  readonly landed: () => readonly string[];
  readonly seen: () => Seen | undefined;
}

interface Seen extends Snapshot {
  readonly conditions: ReadonlyMap<BundleId, readonly Condition[]>;
}

const STATUS_MS = 1_000;
const TROUBLE_MS = 60_000;

/** Reports the state of the node to systemd and to D-Bus clients. */
export class StatusPublisher {
  private readonly gauge: TransferGauge;
  private lastTrouble = { message: '', at: Number.NEGATIVE_INFINITY };
  /** Not kept over a restart. */
  private nodeMarks: ConditionMarks<NodeConditionType> = {};

  constructor(private readonly options: StatusOptions) {
    this.gauge = new TransferGauge(options.clock, options.meter);
  }

  report(): StatusReport | undefined {
    const { seen, media, underWay, landed, clock } = this.options;
    const last = seen();
    if (last === undefined) return undefined;
    const { observed, memory, assessment, conditions } = last;
    const plugged = new Set(media.list().map(({ mediumId }) => mediumId));
    const now = underWay();
    const snapshot: Snapshot = {
      // A stick may have been unplugged since the round.
      observed: { ...observed, media: observed.media.filter(({ mediumId }) => plugged.has(mediumId)) },
      memory: { ...memory, ...now },
      assessment,
    };
    const verdicts = judgeNodeConditions(snapshot);
    this.nodeMarks = marksAfter(this.nodeMarks, verdicts, clock.now());
    const progress = this.gauge.progress(now.running, assessment, landed());
    return reportOf(snapshot, progress, conditions, conditionsOf(verdicts, this.nodeMarks));
  }

  /** Logs a failure and never throws, because a timer calls it too. */
  publish(): void {
    try {
      const current = this.report();
      if (current === undefined) return;
      this.options.notifier.status(current.status);
      this.options.onStatus(current);
    } catch (error) {
      this.logTrouble(`The status could not be published: ${reasonOf(error)}`, error);
    }
  }

  /** Publishes once a second while a task or copy runs, until the returned function is called. */
  tick(): () => void {
    const ticker = setInterval(() => {
      const { running, keeping, copyingBytes, contentChecks } = this.options.underWay();
      const isChecking = contentChecks?.running !== undefined;
      if (running.length > 0 || keeping.size > 0 || copyingBytes !== undefined || isChecking) this.publish();
    }, STATUS_MS);
    return () => clearInterval(ticker);
  }

  /** The same message at most once a minute. */
  logTrouble(message: string, error: unknown): void {
    const at = this.options.clock.monotonic();
    if (message === this.lastTrouble.message && at - this.lastTrouble.at < TROUBLE_MS) return;
    this.lastTrouble = { message, at };
    this.options.log.error({ err: error }, message);
  }
}
