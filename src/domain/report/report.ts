import { plainDocument } from '../../platform/plain-text.ts';
import { type Assessment, allBundles } from '../assess/assess.ts';
import { unsupportedReason } from '../assess/derive-phase.ts';
import { type WantedRelease, wantedReleases } from '../fleet/turn.ts';
import type { Condition, NodeConditionType } from '../model/condition.ts';
import type { BundleId } from '../model/digest.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import { type TrustReport, trustReport } from '../trust/trust-in-force.ts';
import { awaitingReports, type BundleReport, detectedReports, releaseReports } from './parts/bundle-report.ts';
import {
  type HookReport,
  hookReports,
  type NoticeReport,
  noticeReport,
  type RejectedNameReport,
  rejectedNameReport,
  type WindowReport,
  windowReports,
} from './parts/part-reports.ts';
import { reasonText, type ShownReason, shownReason } from './reasons/reason-text.ts';
import type { Snapshot } from './snapshot.ts';
import type { Progress } from './status/media-line.ts';
import { statusLine } from './status/status-line.ts';
import { type StreamReport, streamReports } from './stream-report.ts';
import { wantedReleaseText } from './texts/fleet-text.ts';

/**
 * The whole state for programs: `stickpin status --json`; the properties of the D-Bus API are made
 * from it.
 */
export interface StatusReport {
  readonly status: string;
  readonly operation: 'idle' | 'verifying' | 'preloading' | 'activating';
  /**
   * `reason`: why its images are not known, or why it can't be used. It may be reachable all the
   * same.
   */
  readonly runtime: { readonly reachable: boolean; readonly name?: string; readonly reason?: string };
  readonly media: readonly {
    readonly medium: string;
    readonly state: string;
    readonly bundles: number;
    /** Why it can't be read, of one that is `failed`. */
    readonly reason?: ShownReason;
  }[];
  readonly bundles: readonly BundleReport[];
  readonly rejected: readonly {
    readonly medium: string;
    readonly path: string;
    readonly name?: string;
    /** Absent when its envelope could not be read. */
    readonly bundleId?: string;
    readonly reason: ShownReason;
  }[];
  /** Releases that a person rejected by name. */
  readonly rejectedNames: readonly RejectedNameReport[];
  /** Adopted bundles without images: there is nothing to preload or to activate. */
  readonly notices: readonly NoticeReport[];
  /** Of the node: those of a release are with it. */
  readonly conditions: readonly Condition<NodeConditionType>[];
  /**
   * Images that are pinned and belong to no release that is known here, by the release that they
   * belonged to as far as that is remembered.
   */
  readonly unclaimed: readonly {
    readonly bundleId?: string;
    readonly name?: string;
    readonly version?: string;
    readonly references: readonly string[];
  }[];
  /** The update graphs of all streams of which a release is known, by name. */
  readonly streams: readonly StreamReport[];
  /** The next windows for activations; empty when none is waited for. */
  readonly windows: readonly WindowReport[];
  /** Files of our own state that were found lost or damaged when the daemon started. */
  readonly stateProblems: readonly ShownReason[];
  /** Hooks that run, that are tried again, or that failed last. */
  readonly hooks: readonly HookReport[];
  /** By what bundles are judged now. */
  readonly trust: TrustReport;
  /**
   * Releases that `lifecycle.protect` keeps for good, and the bytes on disk that nothing else would
   * need.
   */
  readonly protected: readonly { readonly name: string; readonly version: string; readonly ownBytes: number }[];
  /**
   * Releases that other nodes have loaded, newer than all of their stream here, and that no node
   * can give: somebody has to plug in a stick, in any node.
   */
  readonly wanted: readonly WantedReport[];
  /** Of the preload that runs, or of the last one. */
  readonly progress: {
    readonly doneBytes: number;
    readonly totalBytes: number;
    /** Absent until there is enough to judge by. */
    readonly bytesPerSecond?: number;
    /** All that was requested is transferred, and the runtime unpacks it. */
    readonly isUnpacking?: true;
    /**
     * The images that are pulled now, by their components, or by their repositories where they have
     * none. Absent while none is.
     */
    readonly images?: readonly string[];
  };
}

/** Of a report what may be empty, with nothing in it. */
export const EMPTY_REPORT = {
  media: [],
  bundles: [],
  notices: [],
  rejected: [],
  rejectedNames: [],
  conditions: [],
  unclaimed: [],
  streams: [],
  windows: [],
  stateProblems: [],
  hooks: [],
  wanted: [],
  protected: [],
} as const satisfies Partial<StatusReport>;

/** A wanted release. `nodes`: those that have it. `message`: a sentence that says what to do. */
interface WantedReport extends WantedRelease {
  readonly message: string;
}

/** `conditions`: of each adopted release, in this round. `nodeConditions`: default none. */
export function reportOf(
  { observed, memory, assessment }: Snapshot,
  progress: Progress,
  conditions: ReadonlyMap<BundleId, readonly Condition[]> = new Map(),
  nodeConditions: readonly Condition<NodeConditionType>[] = [],
): StatusReport {
  const { runtime } = observed;
  return plainDocument<StatusReport>({
    status: statusLine({ observed, memory, assessment }, progress),
    operation: operationOf(observed, memory, assessment),
    runtime: {
      reachable: runtime.kind !== 'unreachable',
      ...(runtime.kind !== 'unreachable' && { name: runtime.name }),
      ...runtimeReason(runtime),
    },
    media: observed.media.map(({ label, state, isBusy }) => ({
      medium: label,
      state: isBusy && state.kind === 'mounted' ? 'reading' : state.kind,
      bundles: state.kind === 'read' ? state.bundles.length : 0,
      ...(state.kind === 'failed' && { reason: state.reason }),
    })),
    bundles: [
      ...releaseReports(assessment, conditions, observed.now),
      ...detectedReports(assessment, observed, memory),
      ...awaitingReports(assessment),
    ],
    notices: assessment.notices.map(({ bundle, withdrawn }) =>
      noticeReport(bundle, withdrawn === undefined ? undefined : shownReason(withdrawn)),
    ),
    rejected: assessment.rejections.map(({ label, path, name, bundleId, reason }) => ({
      medium: label,
      path,
      reason: shownReason(reason),
      ...(name !== undefined && { name }),
      ...(bundleId !== undefined && { bundleId }),
    })),
    rejectedNames: assessment.rejectedNames.map(rejectedNameReport),
    conditions: nodeConditions,
    unclaimed: assessment.pins.unclaimedReleases,
    streams: streamReports(assessment),
    windows: windowReports(assessment),
    stateProblems: memory.stateProblems,
    hooks: hookReports(memory.hooks, assessment.bundles),
    trust: trustReport(observed.trust, allBundles(assessment)),
    protected: assessment.protectedReleases.map(({ bundle: { payload }, ownBytes }) => ({
      name: payload.name,
      version: payload.version,
      ownBytes,
    })),
    wanted: wantedReleases(observed.fleet, allBundles(assessment)).map((release) => ({
      ...release,
      message: wantedReleaseText(release),
    })),
    progress: {
      doneBytes: progress.doneBytes,
      totalBytes: progress.totalBytes,
      ...(progress.bytesPerSecond !== undefined && { bytesPerSecond: Math.round(progress.bytesPerSecond) }),
      ...(progress.isUnpacking === true && { isUnpacking: true as const }),
      ...pulledNow(memory, assessment),
    },
  });
}

function pulledNow({ running }: Memory, { bundles }: Assessment): { readonly images?: readonly string[] } {
  const names = running.flatMap((task) => {
    if (task.kind !== 'pull') return [];
    const images = bundles.find(({ bundle }) => bundle.bundleId === task.bundleId)?.bundle.contents.images ?? [];
    const component = images.find(({ reference }) => reference === task.reference)?.component;
    return [component ?? task.reference.split('@')[0] ?? task.reference];
  });
  return names.length === 0 ? {} : { images: names };
}

function runtimeReason(runtime: Observed['runtime']): { readonly reason?: string } {
  if (runtime.kind !== 'reachable') return { reason: runtime.reason };
  const tooOld = unsupportedReason(runtime);
  return tooOld === undefined ? {} : { reason: reasonText(tooOld) };
}

function operationOf(
  { media }: Observed,
  { running }: Memory,
  { adoptions, bundles }: Assessment,
): StatusReport['operation'] {
  if (running.some((task) => task.kind !== 'pull')) return 'activating';
  if (running.length > 0 || bundles.some((entry) => entry.phase === 'preloading')) return 'preloading';
  const isJudging = media.some(({ state }) => state.kind === 'attached' || state.kind === 'mounted');
  return isJudging || adoptions.length > 0 ? 'verifying' : 'idle';
}

/**
 * The version of the documents for programs: `status.json`, and what commands print with `--json`.
 * It grows when a member changes its meaning or goes; new members do not change it.
 */
export const JSON_SCHEMA_VERSION = 1;
