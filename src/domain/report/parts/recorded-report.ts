import { defined } from '../../../platform/defined.ts';
import { plainDocument } from '../../../platform/plain-text.ts';
import type { Phase } from '../../model/condition.ts';
import { reachedPhase } from '../../release/recorded-phase.ts';
import { rollbackReason } from '../../release/rollback.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName } from '../../trust/approval.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { shownReason } from '../reasons/reason-text.ts';
import type { BundleReport, NoticeReport, StatusReport, TrustReport } from '../status-schema.ts';
import { identityOf, milestonesOf, noticeReport, rejectedNameReport, termsOf } from './part-reports.ts';

export interface StoredRecords {
  /** Bundles in the order of adoption. */
  readonly bundles: readonly StoredBundle[];
  readonly rejectedNames: readonly RejectedName[];
}

/**
 * A release in the database. Facts that only a running daemon observes are absent: present and
 * pinned images, media, conditions.
 */
export type RecordedBundle = Omit<BundleReport, 'images' | 'media'> & {
  readonly images: { readonly total: number; readonly present?: number; readonly pinned?: number };
  readonly media?: readonly string[];
};

/** `stickpin show` searches this report. */
export interface ShowReport
  extends Pick<StatusReport, 'rejected' | 'rejectedNames' | 'notices' | 'streams' | 'windows'> {
  readonly bundles: readonly (BundleReport | RecordedBundle)[];
  /** Absent when only the database is available. */
  readonly trust?: TrustReport;
}

/**
 * Returns the records of the database, completed by the last `status.json` that the daemon `wrote`.
 * If they disagree about the phase of a release, the daemon ended between the two writes. Then only
 * the record counts, which is written first.
 */
export function recordedReport({ bundles, rejectedNames }: StoredRecords, wrote?: StatusReport): ShowReport {
  const { rejected = [], streams = [], windows = [] } = wrote ?? {};
  const known = new Set<string>(bundles.map(({ bundleId }) => bundleId));
  const report = {
    bundles: [
      ...bundles.filter(isRelease).map((bundle) => recordedBundle(bundle, bundles, wrote)),
      ...(wrote?.bundles ?? []).filter(({ bundleId, adoptedAt }) => adoptedAt === undefined && !known.has(bundleId)),
    ],
    notices: bundles.filter((bundle) => !isRelease(bundle)).map((bundle) => recordedNotice(bundle, wrote)),
    rejected,
    rejectedNames: rejectedNames.map(rejectedNameReport),
    streams,
    windows,
    trust: wrote?.trust,
  };
  return plainDocument<ShowReport>(defined(report));
}

function recordedBundle(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  wrote: StatusReport | undefined,
): RecordedBundle {
  const { payload, contents } = bundle;
  const written = wrote?.bundles.find(({ bundleId }) => bundleId === bundle.bundleId);
  const phase = recordedPhase(bundle, bundles, written);
  const reason = rollbackReason(bundle, bundles);
  const record: RecordedBundle = defined({
    ...identityOf(bundle),
    phase,
    reason: reason && shownReason(reason),
    signedBy: bundle.signedBy,
    signerKeyIds: bundle.signerKeyIds,
    images: { total: contents.images.length },
    sizeBytes: payload.totals.sizeBytes,
    ...milestonesOf(bundle),
    ...termsOf(bundle),
  });
  return written?.phase === phase ? { ...record, ...written } : record;
}

/** Phases of an adopted release that is not ready, or whose images are absent. */
const UNREADY: readonly Phase[] = ['rejected', 'held', 'preloading'];

/** The records have the phase that a release reached. Only the daemon knew why it stopped there. */
function recordedPhase(bundle: StoredBundle, bundles: readonly StoredBundle[], written?: BundleReport): Phase {
  const reached = reachedPhase(bundle, bundles);
  if (reached !== undefined && reached !== 'ready') return reached;
  if (written !== undefined && UNREADY.includes(written.phase)) return written.phase;
  return reached ?? 'held';
}

function recordedNotice(bundle: StoredBundle, wrote: StatusReport | undefined): NoticeReport {
  return noticeReport(bundle, wrote?.notices.find(({ bundleId }) => bundleId === bundle.bundleId)?.reason);
}
