import { plainDocument } from '../../platform/plain-text.ts';
import type { Assessment, NoticeAssessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { unsupportedReason } from '../assess/runtime-support.ts';
import type { ActivationHold } from '../gates/gates.ts';
import type { Advisory, VerifiedBundle } from '../model/bundle.ts';
import type { Condition } from '../model/condition.ts';
import type { BundleId } from '../model/digest.ts';
import type { Medium } from '../model/medium.ts';
import { type EffectiveAdvisory, effectiveAdvisories } from '../path/milestones.ts';
import { isRecordingTrouble } from '../preload/disk-trouble.ts';
import { currentIds } from '../release/recorded-phase.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import { type TrustReport, trustReport } from '../trust/trust-in-force.ts';
import { trustedBundles } from './advisories.ts';
import { heldReason, holdClause } from './hold-text.ts';
import { reasonText, type ShownReason, shownReason } from './reasons/reason-text.ts';
import { type ShownRule, shownRules } from './shown-rules.ts';
import type { Snapshot } from './snapshot.ts';
import type { Progress } from './status/progress-text.ts';
import { statusLine } from './status/status-line.ts';
import { keptText } from './texts/kept-text.ts';
import { sourcesOf } from './texts/sources.ts';

/**
 * One bundle in a {@link StatusReport}. Times are RFC 3339. One that waits for approval is not
 * adopted, so it has no `adoptedAt`; one that no trusted key signed is not read either: `name` and
 * `version` are empty and `sequence` is 0.
 */
export interface BundleReport {
  readonly bundleId: string;
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  readonly phase: string;
  readonly hold?: string;
  readonly reason?: ShownReason;
  /** What quick tries could not mend; the rest goes on. */
  readonly degraded?: ShownReason;
  /** Of an adopted release. */
  readonly conditions?: readonly Condition[];
  readonly signedBy: readonly string[];
  /** Key ids of the signers, sorted; absent when they were not recorded. */
  readonly signerKeyIds?: readonly string[];
  readonly media: readonly string[];
  /**
   * Where what is absent comes from: labels of media, registries, or the node's own disk. Absent
   * while nothing is to be pulled.
   */
  readonly sources?: readonly string[];
  readonly images: { readonly total: number; readonly present: number; readonly pinned: number };
  readonly sizeBytes: number;
  /** What a bundle of the stream says about this release; the newest sequence wins. */
  readonly advisory?: EffectiveAdvisory & { readonly effect: ShownRule['effect'] };
  readonly adoptedAt?: string;
  readonly readyAt?: string;
  readonly activatedAt?: string;
  /**
   * Of an adopted release: whether it is the one of its stream that was activated last, whose tags
   * hold.
   */
  readonly current?: boolean;
  /** Of one that was activated and is not the current one: why it is kept, and until when. */
  readonly kept?: string;
  /** What the maker of the bundle was warned of; absent when of nothing. */
  readonly warnings?: readonly string[];
  /**
   * All that holds its activation, the first one first; absent while nothing does, and when its
   * activation is done.
   */
  readonly activationHolds?: readonly ActivationHoldReport[];
  /** Rules of its payload, absent when it has none. */
  readonly rules?: readonly ShownRule[];
}

/** What one gate says that holds an activation. */
export interface ActivationHoldReport {
  readonly gate: string;
  readonly code: string;
  readonly message: string;
  /**
   * `time`: the hold ends by itself. `event`: it ends with something else that happens on the node.
   */
  readonly releasedBy: ActivationHold['releasedBy'];
  /** When it ends by itself (RFC 3339), where a date can say so. */
  readonly until?: string;
}

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
  /** Adopted bundles without images: there is nothing to preload or to activate. */
  readonly notices: readonly {
    readonly bundleId: string;
    readonly name: string;
    readonly version: string;
    readonly sequence: number;
    readonly signedBy: readonly string[];
    readonly signerKeyIds?: readonly string[];
    readonly adoptedAt: string;
    readonly advisories: readonly Advisory[];
    readonly reason?: ShownReason;
  }[];
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
  /** Files of our own state that were found lost or damaged when the daemon started. */
  readonly stateProblems: readonly ShownReason[];
  /** By what bundles are judged now. */
  readonly trust: TrustReport;
  /**
   * Releases that `lifecycle.protect` keeps for good, and the bytes on disk that nothing else would
   * need.
   */
  readonly protected: readonly { readonly name: string; readonly version: string; readonly ownBytes: number }[];
  /** Of the preload that runs, or of the last one. */
  readonly progress: {
    readonly doneBytes: number;
    readonly totalBytes: number;
    /** Absent until there is enough to judge by. */
    readonly bytesPerSecond?: number;
    /** All that was asked for is transferred, and the runtime unpacks it. */
    readonly isUnpacking?: true;
  };
}

/** Makes the report of one round. `conditions`: of each adopted release, in that round. */
export function reportOf(
  { observed, memory, assessment }: Snapshot,
  progress: Progress,
  conditions: ReadonlyMap<BundleId, readonly Condition[]> = new Map(),
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
      ...releaseReports(assessment, conditions),
      ...detectedReports(assessment, observed, memory),
      ...awaitingReports(assessment),
    ],
    notices: assessment.notices.map(noticeReport),
    rejected: assessment.rejections.map(({ label, path, name, bundleId, reason }) => ({
      medium: label,
      path,
      reason: shownReason(reason),
      ...(name !== undefined && { name }),
      ...(bundleId !== undefined && { bundleId }),
    })),
    unclaimed: assessment.pins.unclaimedReleases,
    stateProblems: memory.stateProblems,
    trust: trustReport(
      observed.trust,
      [...assessment.bundles, ...assessment.notices].map(({ bundle }) => bundle),
    ),
    protected: assessment.protectedReleases.map(({ bundle: { payload }, ownBytes }) => ({
      name: payload.name,
      version: payload.version,
      ownBytes,
    })),
    progress: {
      doneBytes: progress.doneBytes,
      totalBytes: progress.totalBytes,
      ...(progress.bytesPerSecond !== undefined && { bytesPerSecond: Math.round(progress.bytesPerSecond) }),
      ...(progress.isUnpacking === true && { isUnpacking: true as const }),
    },
  });
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

function releaseReports(
  assessment: Assessment,
  conditions: ReadonlyMap<BundleId, readonly Condition[]>,
): BundleReport[] {
  const trusted = trustedBundles(assessment);
  const current = currentIds(assessment.bundles.map(({ bundle }) => bundle));
  const streams = new Map(
    assessment.bundles.map(({ bundle: { payload } }) => [payload.name, effectiveAdvisories(trusted, payload.name)]),
  );
  return assessment.bundles.map((entry) => {
    const { name, version } = entry.bundle.payload;
    const advisory = streams.get(name)?.get(version);
    const why = assessment.kept.get(entry.bundle.bundleId);
    return {
      ...bundleReport(entry, conditions.get(entry.bundle.bundleId)),
      current: current.has(entry.bundle.bundleId),
      ...(why !== undefined && { kept: keptText(entry.bundle, why) }),
      ...(advisory !== undefined && { advisory: { ...advisory, effect: 'holds-others' } }),
    };
  });
}

function noticeReport({ bundle, withdrawn }: NoticeAssessment): StatusReport['notices'][number] {
  const { bundleId, payload, signedBy, signerKeyIds } = bundle;
  return {
    bundleId,
    name: payload.name,
    version: payload.version,
    sequence: payload.sequence,
    signedBy,
    ...(signerKeyIds !== undefined && { signerKeyIds }),
    adoptedAt: new Date(bundle.adoptedAt).toISOString(),
    advisories: payload.advisories ?? [],
    ...(withdrawn !== undefined && { reason: shownReason(withdrawn) }),
  };
}

function bundleReport(entry: BundleAssessment, conditions: readonly Condition[] | undefined): BundleReport {
  const { bundle, phase, hold, media, absentImages, unpinnedImages } = entry;
  const { payload, contents } = bundle;
  const total = contents.images.length;
  const present = total - absentImages.length;
  const holds = phase === 'retired' ? [] : entry.holds;
  const why = entry.reason ?? entry.trouble;
  const reason = why === undefined ? heldReason(entry) : shownReason(why);
  const rules = shownRules(payload);
  const absentPins = absentImages.filter((image) => image.pin).length;
  const wantPinned = contents.images.filter((image) => image.pin).length - absentPins;
  return {
    bundleId: bundle.bundleId,
    name: payload.name,
    version: payload.version,
    sequence: payload.sequence,
    phase,
    ...(hold !== undefined && { hold }),
    ...(reason !== undefined && { reason }),
    ...(entry.degraded !== undefined && { degraded: shownReason(entry.degraded) }),
    ...(conditions !== undefined && { conditions }),
    signedBy: bundle.signedBy,
    ...(bundle.signerKeyIds !== undefined && { signerKeyIds: bundle.signerKeyIds }),
    media,
    ...(isPulling(entry) && { sources: sourcesOf(entry) }),
    images: { total, present, pinned: wantPinned - unpinnedImages.length },
    sizeBytes: payload.totals.sizeBytes,
    adoptedAt: new Date(bundle.adoptedAt).toISOString(),
    ...(bundle.readyAt !== undefined && { readyAt: new Date(bundle.readyAt).toISOString() }),
    ...(bundle.activatedAt !== undefined && { activatedAt: new Date(bundle.activatedAt).toISOString() }),
    ...(holds.length > 0 && { activationHolds: holds.map(holdReport) }),
    ...(rules.length > 0 && { rules }),
    ...(payload.warnings !== undefined && payload.warnings.length > 0 && { warnings: payload.warnings }),
  };
}

function holdReport(hold: ActivationHold): ActivationHoldReport {
  const { gate, code, releasedBy, lookAgainAt } = hold;
  const end = releasedBy === 'time' && lookAgainAt !== undefined ? new Date(lookAgainAt) : undefined;
  const hasDate = end !== undefined && !Number.isNaN(end.getTime());
  return { gate, code, message: holdClause(hold), releasedBy, ...(hasDate && { until: end.toISOString() }) };
}

function isPulling({ phase, pullableImages }: BundleAssessment): boolean {
  return phase === 'preloading' && pullableImages.length > 0;
}

/**
 * Bundles that are trusted and can't be taken up while nothing can be recorded, with the labels of
 * all media that carry them.
 */
function detectedReports({ adoptions }: Assessment, { media }: Observed, { obstacle }: Memory): BundleReport[] {
  if (obstacle === undefined || !isRecordingTrouble(obstacle)) return [];
  const isOn = ({ state }: Medium, { bundleId }: VerifiedBundle) =>
    state.kind === 'read' && state.bundles.some((one) => one.kind === 'verified' && one.bundle.bundleId === bundleId);
  return adoptions.map(({ found: { bundle } }) => ({
    bundleId: bundle.bundleId,
    name: bundle.payload.name,
    version: bundle.payload.version,
    sequence: bundle.payload.sequence,
    phase: 'detected',
    reason: obstacle,
    signedBy: bundle.signedBy,
    media: media.filter((medium) => isOn(medium, bundle)).map(({ label }) => label),
    images: { total: bundle.contents.images.length, present: 0, pinned: 0 },
    sizeBytes: bundle.payload.totals.sizeBytes,
  }));
}

/** Bundles that wait for approval, each once, with the labels of all media that carry them. */
function awaitingReports({ awaiting }: Assessment): BundleReport[] {
  const unique = awaiting.filter(({ bundleId }, at) => awaiting.findIndex((one) => one.bundleId === bundleId) === at);
  return unique.map(({ bundleId, bundle, reason }) => ({
    bundleId,
    name: bundle?.payload.name ?? '',
    version: bundle?.payload.version ?? '',
    sequence: bundle?.payload.sequence ?? 0,
    phase: 'held',
    hold: 'approval',
    reason: shownReason(reason),
    signedBy: bundle?.signedBy ?? [],
    media: [...new Set(awaiting.filter((one) => one.bundleId === bundleId).map(({ label }) => label))],
    images: { total: bundle?.contents.images.length ?? 0, present: 0, pinned: 0 },
    sizeBytes: bundle?.payload.totals.sizeBytes ?? 0,
  }));
}
