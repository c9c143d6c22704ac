import { plainDocument } from '../../../platform/plain-text.ts';
import type { Phase } from '../../model/condition.ts';
import { reachedPhase } from '../../release/recorded-phase.ts';
import { rollbackReason } from '../../release/rollback.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { RejectedName } from '../../trust/approval.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { shownReason } from '../reasons/reason-text.ts';
import type { BundleReport, NoticeReport, StatusReport, TrustReport } from '../status-schema.ts';
import { noticeReport, rejectedNameReport, shownRules } from './part-reports.ts';

export interface StoredRecords {
  /** In the order of adoption. */
  readonly bundles: readonly StoredBundle[];
  readonly rejectedNames: readonly RejectedName[];
}

/**
 * A release as the database knows it. What only a running daemon sees is absent: images that are
 * present and pinned, media, conditions.
 */
export type RecordedBundle = Omit<BundleReport, 'images' | 'media'> & {
  readonly images: { readonly total: number; readonly present?: number; readonly pinned?: number };
  readonly media?: readonly string[];
};

/** What `stickpin show` searches. */
export interface ShowReport
  extends Pick<StatusReport, 'rejected' | 'rejectedNames' | 'notices' | 'streams' | 'windows'> {
  readonly bundles: readonly (BundleReport | RecordedBundle)[];
  /** Absent when nothing but the database is there. */
  readonly trust?: TrustReport;
}

/**
 * What the database says, completed by what the daemon `wrote` last into `status.json`. Where they
 * disagree about the phase of a release, the daemon ended between the two: then only the record,
 * which is written first, is taken.
 */
export function recordedReport({ bundles, rejectedNames }: StoredRecords, wrote?: StatusReport): ShowReport {
  const { rejected = [], streams = [], windows = [] } = wrote ?? {};
  const known = new Set<string>(bundles.map(({ bundleId }) => bundleId));
  return plainDocument<ShowReport>({
    bundles: [
      ...bundles.filter(isRelease).map((bundle) => recordedBundle(bundle, bundles, wrote)),
      ...(wrote?.bundles ?? []).filter(({ bundleId, adoptedAt }) => adoptedAt === undefined && !known.has(bundleId)),
    ],
    notices: bundles.filter((bundle) => !isRelease(bundle)).map((bundle) => recordedNotice(bundle, wrote)),
    rejected,
    rejectedNames: rejectedNames.map(rejectedNameReport),
    streams,
    windows,
    ...(wrote !== undefined && { trust: wrote.trust }),
  });
}

function recordedBundle(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  wrote: StatusReport | undefined,
): RecordedBundle {
  const { payload, contents, signerKeyIds, readyAt, activatedAt } = bundle;
  const written = wrote?.bundles.find(({ bundleId }) => bundleId === bundle.bundleId);
  const phase = recordedPhase(bundle, bundles, written);
  const rules = shownRules(payload);
  const reason = rollbackReason(bundle, bundles);
  const record: RecordedBundle = {
    bundleId: bundle.bundleId,
    name: payload.name,
    version: payload.version,
    sequence: payload.sequence,
    phase,
    ...(reason !== undefined && { reason: shownReason(reason) }),
    signedBy: bundle.signedBy,
    ...(signerKeyIds !== undefined && { signerKeyIds }),
    images: { total: contents.images.length },
    sizeBytes: payload.totals.sizeBytes,
    adoptedAt: new Date(bundle.adoptedAt).toISOString(),
    ...(readyAt !== undefined && { readyAt: new Date(readyAt).toISOString() }),
    ...(activatedAt !== undefined && { activatedAt: new Date(activatedAt).toISOString() }),
    ...(bundle.cancelled !== undefined && {
      cancelled: { at: new Date(bundle.cancelled.at).toISOString(), media: bundle.cancelled.media },
    }),
    ...(rules.length > 0 && { rules }),
    ...(payload.warnings !== undefined && payload.warnings.length > 0 && { warnings: payload.warnings }),
  };
  return written?.phase === phase ? { ...record, ...written } : record;
}

/** The phases of an adopted release that is not ready, or whose images were seen to be absent. */
const UNREADY: readonly Phase[] = ['rejected', 'held', 'preloading'];

/** The records say how far a release came; only the daemon saw why it came no further. */
function recordedPhase(bundle: StoredBundle, bundles: readonly StoredBundle[], written?: BundleReport): Phase {
  const reached = reachedPhase(bundle, bundles);
  if (reached !== undefined && reached !== 'ready') return reached;
  if (written !== undefined && UNREADY.includes(written.phase)) return written.phase;
  return reached ?? 'held';
}

function recordedNotice(bundle: StoredBundle, wrote: StatusReport | undefined): NoticeReport {
  return noticeReport(bundle, wrote?.notices.find(({ bundleId }) => bundleId === bundle.bundleId)?.reason);
}
