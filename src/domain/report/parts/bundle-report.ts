import { defined } from '../../../platform/defined.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import { effectiveAdvisories } from '../../activation/read-paths.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import type { VerifiedBundle } from '../../model/bundle.ts';
import type { Condition } from '../../model/condition.ts';
import type { BundleId } from '../../model/digest.ts';
import type { Medium } from '../../model/medium.ts';
import { isRecordingTrouble } from '../../preload/space.ts';
import { needsEvidence, type SoakVerdict, wordOf } from '../../release/evidence.ts';
import type { LifecycleAssessment } from '../../release/lifecycle.ts';
import { currentIds, isRolledBack } from '../../release/recorded-phase.ts';
import type { Memory } from '../../state/memory.ts';
import { bundlesIn, type Observed, type StoredBundle } from '../../state/state.ts';
import { heldReason, holdMessage, shownHolds } from '../hold-text.ts';
import { withCommands } from '../names.ts';
import { shownReason } from '../reasons/reason-text.ts';
import type { ActivationHoldReport, BundleReport } from '../status-schema.ts';
import { keptText } from '../texts/release-text.ts';
import { sourcesOf } from '../texts/short-texts.ts';
import { identityOf, isoTime, milestonesOf, termsOf } from './part-reports.ts';

/** @param conditions of each adopted release, in this round. @param now see `Observed.now` */
export function releaseReports(
  assessment: Assessment,
  conditions: ReadonlyMap<BundleId, readonly Condition[]>,
  now: number,
): BundleReport[] {
  const trusted = trustedBundles(assessment);
  const bundles = bundlesIn(assessment.bundles);
  const current = currentIds(bundles);
  const names = new Set(bundles.map(({ payload }) => payload.name));
  const streams = new Map([...names].map((name) => [name, effectiveAdvisories(trusted, name)]));
  return assessment.bundles.map((entry) => {
    const { name, version } = entry.bundle.payload;
    const { bundleId } = entry.bundle;
    const advisory = streams.get(name)?.get(version);
    const why = assessment.kept.get(bundleId);
    const report: BundleReport = defined({
      ...bundleReport(entry, conditions.get(bundleId)),
      current: current.has(bundleId),
      runs: current.has(bundleId) ? runsOf(entry, bundles, assessment.life) : undefined,
      soakEndsAt: soakEnd(assessment.life.soaks.get(bundleId), now),
      kept: why && keptText(entry.bundle, why),
      advisory: advisory && { ...advisory, effect: 'holds-others' as const },
    });
    return withCommands(report, entry.bundle, bundles);
  });
}

function runsOf(
  { bundle, phase }: BundleAssessment,
  bundles: readonly StoredBundle[],
  { outrun }: LifecycleAssessment,
): boolean | undefined {
  if (phase === 'active') return true;
  const { proof, afterProof } = bundle.soak ?? {};
  // A proof by hand or without evidence does not show that containers run.
  const runs = afterProof === undefined || wordOf(afterProof.components).runs;
  if (phase === 'proven') return proof === undefined ? runs : undefined;
  return outrun.has(bundle.bundleId) || (phase === 'activated' && needsEvidence(bundle, bundles)) ? false : undefined;
}

const SOAK_STEP_MS = 10_000;

function soakEnd(soak: SoakVerdict | undefined, now: number): string | undefined {
  if (soak?.kind !== 'soaking' || soak.remainingMs === undefined) return undefined;
  return isoTime(Math.ceil((now + soak.remainingMs) / SOAK_STEP_MS) * SOAK_STEP_MS);
}

function bundleReport(entry: BundleAssessment, conditions: readonly Condition[] | undefined): BundleReport {
  const { bundle, phase, hold, media, absentImages, absentArtifacts, pinnedImages, pullableImages } = entry;
  const { payload, contents } = bundle;
  const total = contents.images.length;
  const present = total - absentImages.length;
  const holds = phase === 'retired' ? [] : shownHolds(entry);
  const why = entry.reason ?? entry.trouble;
  const reason = why === undefined ? heldReason(entry) : shownReason(why);
  return defined({
    ...identityOf(bundle),
    phase,
    hold,
    reason,
    degraded: entry.degraded && shownReason(entry.degraded),
    rolledBack: isRolledBack(bundle) || undefined,
    conditions,
    signedBy: bundle.signedBy,
    signerKeyIds: bundle.signerKeyIds,
    media,
    sources: phase === 'preloading' && pullableImages.length > 0 ? sourcesOf(entry) : undefined,
    images: { total, present, pinned: pinnedImages.length },
    artifacts: artifactCount(bundle, phase === 'retired' ? undefined : absentArtifacts.length),
    sizeBytes: payload.totals.sizeBytes,
    ...milestonesOf(bundle),
    activationHolds: holds.length > 0 ? holds.map(holdReport) : undefined,
    rollOut: entry.rollOut,
    ...termsOf(bundle),
  });
}

/** Undefined for a bundle without artifacts. @param absent default: all */
function artifactCount(bundle: VerifiedBundle | undefined, absent?: number): BundleReport['artifacts'] {
  const total = bundle?.contents.artifacts?.length ?? 0;
  return total === 0 ? undefined : { total, present: total - (absent ?? total) };
}

function holdReport(hold: ActivationHold): ActivationHoldReport {
  const { gate, code, releasedBy, checkAgainAt } = hold;
  const end = releasedBy === 'time' && checkAgainAt !== undefined ? new Date(checkAgainAt) : undefined;
  const hasDate = end !== undefined && !Number.isNaN(end.getTime());
  return { gate, code, message: holdMessage(hold), releasedBy, ...(hasDate && { until: end.toISOString() }) };
}

/**
 * Returns trusted bundles that can't be adopted while nothing can be recorded, with the labels of
 * all media that carry them.
 */
export function detectedReports({ adoptions }: Assessment, { media }: Observed, { obstacle }: Memory): BundleReport[] {
  if (obstacle === undefined || !isRecordingTrouble(obstacle)) return [];
  const isOn = ({ state }: Medium, { bundleId }: VerifiedBundle) =>
    state.kind === 'read' && state.bundles.some((one) => one.kind === 'verified' && one.bundle.bundleId === bundleId);
  return adoptions.map(({ found: { bundle } }) =>
    defined({
      ...identityOf(bundle),
      phase: 'detected' as const,
      reason: obstacle,
      signedBy: bundle.signedBy,
      media: media.filter((medium) => isOn(medium, bundle)).map(({ label }) => label),
      images: { total: bundle.contents.images.length, present: 0, pinned: 0 },
      artifacts: artifactCount(bundle),
      sizeBytes: bundle.payload.totals.sizeBytes,
    }),
  );
}

/** Returns bundles that wait for approval, each once, with the labels of all their media. */
export function awaitingReports({ awaiting }: Assessment): BundleReport[] {
  const unique = awaiting.filter(({ bundleId }, at) => awaiting.findIndex((one) => one.bundleId === bundleId) === at);
  return unique.map(({ bundleId, bundle, reason }) =>
    defined({
      bundleId,
      name: bundle?.payload.name ?? '',
      version: bundle?.payload.version ?? '',
      sequence: bundle?.payload.sequence ?? 0,
      phase: 'held' as const,
      hold: 'approval' as const,
      reason: shownReason(reason),
      signedBy: bundle?.signedBy ?? [],
      media: [...new Set(awaiting.filter((one) => one.bundleId === bundleId).map(({ label }) => label))],
      images: { total: bundle?.contents.images.length ?? 0, present: 0, pinned: 0 },
      artifacts: artifactCount(bundle),
      sizeBytes: bundle?.payload.totals.sizeBytes ?? 0,
    }),
  );
}

/** Returns adopted bundles that are still trusted. */
function trustedBundles({ bundles, notices }: Assessment): readonly StoredBundle[] {
  return [...bundles, ...notices].filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
}
