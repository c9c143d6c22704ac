import { defined } from '../../platform/defined.ts';
import { plainDocument } from '../../platform/plain-text.ts';
import { type Assessment, allBundles } from '../assess/assess.ts';
import { unsupportedReason } from '../assess/derive-phase.ts';
import { bundleInWork } from '../decide/release-effects.ts';
import { wantedReleases } from '../fleet/turn.ts';
import { bundleName, type VerifiedBundle } from '../model/bundle.ts';
import type { Condition, NodeConditionType } from '../model/condition.ts';
import type { BundleId } from '../model/digest.ts';
import { isFolder, type Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import type { ShownKey, TrustInForce } from '../trust/trust-in-force.ts';
import { awaitingReports, detectedReports, releaseReports } from './parts/bundle-report.ts';
import { hookReports, noticeReport, rejectedNameReport, windowReports } from './parts/part-reports.ts';
import { wantedReleaseText } from './reasons/node-lines.ts';
import { reasonText, shownReason } from './reasons/reason-text.ts';
import type { Snapshot } from './snapshot.ts';
import type { Progress } from './status/media-line.ts';
import { adminWaits, personNeeds } from './status/needs-person.ts';
import { adviceOf, statusLine } from './status/status-line.ts';
import type { StatusReport, TrustReport } from './status-schema.ts';
import { streamReports } from './stream-report.ts';
import { verdictOf } from './verdict.ts';

/** @param conditions of each adopted release, in this round @param nodeConditions default none */
export function reportOf(
  snapshot: Snapshot,
  progress: Progress,
  conditions: ReadonlyMap<BundleId, readonly Condition[]> = new Map(),
  nodeConditions: readonly Condition<NodeConditionType>[] = [],
): StatusReport {
  const { observed, memory, assessment } = snapshot;
  const { runtime } = observed;
  const standing = {
    advice: adviceOf(snapshot, progress),
    needsPerson: personNeeds(snapshot, progress),
    waitsForAdmin: adminWaits(snapshot),
    operation: operationOf(observed, memory, assessment),
  };
  return plainDocument<StatusReport>({
    status: statusLine(snapshot, progress),
    verdict: verdictOf(standing),
    ...standing,
    runtime: defined({
      reachable: runtime.kind !== 'unreachable',
      name: runtime.kind === 'unreachable' ? undefined : runtime.name,
      reason: runtimeReason(runtime),
    }),
    media: observed.media.map(({ label, peer, state, isBusy }) => ({
      medium: label,
      kind: peer !== undefined ? 'node' : isFolder({ label }) ? 'folder' : 'stick',
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
    rejected: assessment.rejections.map(({ label, path, name, bundleId, reason }) =>
      defined({ medium: label, path, reason: shownReason(reason), name, bundleId }),
    ),
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
      name: release.name,
      version: release.version,
      nodes: release.nodes,
      message: wantedReleaseText(release),
    })),
    pauses: assessment.pauses,
    progress: defined({
      doneBytes: progress.doneBytes,
      totalBytes: progress.totalBytes,
      bytesPerSecond: progress.bytesPerSecond && Math.round(progress.bytesPerSecond),
      isUnpacking: progress.isUnpacking || undefined,
      images: pulledNow(memory, assessment),
    }),
  });
}

function pulledNow({ running }: Memory, { bundles }: Assessment): readonly string[] | undefined {
  const names = running.flatMap((task) => {
    if (task.kind !== 'pull') return [];
    const images = bundles.find(({ bundle }) => bundle.bundleId === task.bundleId)?.bundle.contents.images ?? [];
    const component = images.find(({ reference }) => reference === task.reference)?.component;
    return [component ?? task.reference.split('@')[0] ?? task.reference];
  });
  return names.length === 0 ? undefined : names;
}

function runtimeReason(runtime: Observed['runtime']): string | undefined {
  if (runtime.kind !== 'reachable') return runtime.reason;
  const tooOld = unsupportedReason(runtime);
  return tooOld && reasonText(tooOld);
}

function operationOf({ media }: Observed, { running }: Memory, assessment: Assessment): StatusReport['operation'] {
  const { adoptions, bundles } = assessment;
  if (running.some((task) => task.kind !== 'pull')) return 'activating';
  const isLoading = running.length > 0 || bundleInWork({ running }, assessment) !== undefined;
  if (isLoading || bundles.some(({ phase }) => phase === 'preloading')) return 'preloading';
  const isJudging = media.some(({ state }) => state.kind === 'attached' || state.kind === 'mounted');
  return isJudging || adoptions.length > 0 ? 'verifying' : 'idle';
}

/** @param bundles adopted bundles */
function trustReport(trust: TrustInForce, bundles: readonly VerifiedBundle[]): TrustReport {
  const names = new Map(bundles.map(({ bundleId, payload }) => [bundleId, bundleName(payload)]));
  const nameOf = (bundleId: BundleId) => names.get(bundleId) ?? bundleId;
  const reported = ({ name, keyId, broughtBy }: ShownKey) =>
    defined({ name, keyId, broughtBy: broughtBy && nameOf(broughtBy) });
  const { alarm: _, ...others } = trust;
  return defined({
    ...others,
    keys: trust.keys.map(reported),
    roles: trust.roles?.map((role) => ({ ...role, keys: role.keys.map(reported) })),
    revoked: trust.revoked.map(({ revokedBy, ...revocation }) =>
      defined({ ...revocation, revokedBy: revokedBy && nameOf(revokedBy) }),
    ),
  });
}
