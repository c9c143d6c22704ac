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
import { createTransferGauge, measureProgress, type TransferGauge } from './transfer-progress.ts';

export interface StatusDependencies {
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

/** Reports the state of the node to systemd and to D-Bus clients. */
export interface StatusPublisher {
  report(): StatusReport | undefined;
  /** Logs a failure and never throws, because a timer calls it too. */
  publish(): void;
  /** Publishes once a second while a task or copy runs, until the returned function is called. */
  tick(): () => void;
  /** The same message at most once a minute. */
  logTrouble(message: string, error: unknown): void;
}

interface Publishing extends StatusDependencies {
  readonly gauge: TransferGauge;
  lastTrouble: { readonly message: string; readonly at: number };
  /** Not kept over a restart. */
  nodeMarks: ConditionMarks<NodeConditionType>;
}

const STATUS_MS = 1_000;
const TROUBLE_MS = 60_000;

export function createStatusPublisher(deps: StatusDependencies): StatusPublisher {
  const publishing: Publishing = {
    ...deps,
    gauge: createTransferGauge(deps.clock, deps.meter),
    lastTrouble: { message: '', at: Number.NEGATIVE_INFINITY },
    nodeMarks: {},
  };
  return {
    report: () => report(publishing),
    publish: () => publish(publishing),
    tick: () => tick(publishing),
    logTrouble: (message, error) => logTrouble(publishing, message, error),
  };
}

function report(publishing: Publishing): StatusReport | undefined {
  const { seen, media, underWay, gauge, landed, clock } = publishing;
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
  publishing.nodeMarks = marksAfter(publishing.nodeMarks, verdicts, clock.now());
  const nodeConditions = conditionsOf(verdicts, publishing.nodeMarks);
  return reportOf(snapshot, measureProgress(gauge, now.running, assessment, landed()), conditions, nodeConditions);
}

function publish(publishing: Publishing): void {
  try {
    const current = report(publishing);
    if (current === undefined) return;
    publishing.notifier.status(current.status);
    publishing.onStatus(current);
  } catch (error) {
    logTrouble(publishing, `The status could not be published: ${reasonOf(error)}`, error);
  }
}

function tick(publishing: Publishing): () => void {
  const ticker = setInterval(() => {
    const { running, keeping, copyingBytes, contentChecks } = publishing.underWay();
    const isChecking = contentChecks?.running !== undefined;
    if (running.length > 0 || keeping.size > 0 || copyingBytes !== undefined || isChecking) publish(publishing);
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
