import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import type { VerifiedBundle } from '../../../domain/model/bundle.ts';
import type { BundleId } from '../../../domain/model/digest.ts';
import { RULE_CODES } from '../../../domain/model/reason.ts';
import type { BadBlob } from '../../../domain/state/checks.ts';
import type { Soak } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';

interface BundleRow {
  readonly bundle_id: string;
  readonly payload: string;
  readonly contents: string;
  readonly signed_by: string;
  readonly signer_key_ids: string | null;
  readonly signer_roles: string | null;
  readonly adopted_at: number;
  readonly claimed_at: number | null;
  readonly reset_at: number | null;
  readonly ready_at: number | null;
  readonly activation_requested_at: number | null;
  readonly activation_overrides: string | null;
  readonly activation_begun_at: number | null;
  readonly activated_at: number | null;
  readonly active_at: number | null;
  readonly proven_at: number | null;
  readonly retired_at: number | null;
  readonly remove_images: number | null;
  readonly rolled_back_at: number | null;
  readonly rolled_back_reason: string | null;
  readonly soak: string | null;
  readonly bad_blobs: string | null;
  readonly cancelled_at: number | null;
  readonly cancelled_media: string | null;
}

/** Parses the JSON of a bundle row. The `bundle` room supplies it, because it owns the schema. */
export type BundleReviver = (row: {
  readonly payload: string;
  readonly contents: string;
}) => Pick<VerifiedBundle, 'payload' | 'contents'>;

const names = v.array(v.string());
const signerRoles = v.array(
  v.pipe(
    v.tuple([v.string(), v.string()]),
    v.transform(([keyId, role]) => ({ keyId, role })),
  ),
);
const overrides = v.array(v.picklist(RULE_CODES));

function lifecycleOf(row: BundleRow): Partial<StoredBundle> {
  return {
    ...(row.active_at !== null && { activeAt: row.active_at }),
    ...(row.proven_at !== null && { provenAt: row.proven_at }),
    ...(row.retired_at !== null && { retiredAt: row.retired_at }),
    ...(row.remove_images !== null && { removeImages: row.remove_images !== 0 }),
    ...(row.rolled_back_at !== null && { rolledBackAt: row.rolled_back_at }),
    ...(row.rolled_back_reason !== null && { rolledBackReason: row.rolled_back_reason }),
    ...(row.soak !== null && { soak: JSON.parse(row.soak) as Soak }),
    ...(row.bad_blobs !== null && { badBlobs: JSON.parse(row.bad_blobs) as readonly BadBlob[] }),
  };
}

/** The bundles of a database, in the order of adoption. @throws AppError `store/row` (`fatal`) */
export function loadBundles(database: Database, revive: BundleReviver): readonly StoredBundle[] {
  const rows = database
    .prepare<[], BundleRow>(
      `SELECT bundle.*, cancellation.at AS cancelled_at, cancellation.media AS cancelled_media
       FROM bundle LEFT JOIN cancellation USING (bundle_id) ORDER BY adopted_at, bundle.rowid`,
    )
    .all();
  return rows.map((row) => {
    try {
      return {
        bundleId: row.bundle_id as BundleId,
        ...revive(row),
        signedBy: v.parse(names, JSON.parse(row.signed_by)),
        ...(row.signer_key_ids !== null && { signerKeyIds: v.parse(names, JSON.parse(row.signer_key_ids)) }),
        ...(row.signer_roles !== null && { signerRoles: v.parse(signerRoles, JSON.parse(row.signer_roles)) }),
        adoptedAt: row.adopted_at,
        ...(row.reset_at !== null && { resetAt: row.reset_at }),
        ...(row.claimed_at !== null && { claimedAt: row.claimed_at }),
        ...(row.ready_at !== null && { readyAt: row.ready_at }),
        ...(row.activation_requested_at !== null && { activationRequestedAt: row.activation_requested_at }),
        ...(row.activation_overrides !== null && {
          activationOverrides: v.parse(overrides, JSON.parse(row.activation_overrides)),
        }),
        ...(row.activation_begun_at !== null && { activationBegunAt: row.activation_begun_at }),
        ...(row.activated_at !== null && { activatedAt: row.activated_at }),
        ...lifecycleOf(row),
        ...(row.cancelled_at !== null && {
          cancelled: { at: row.cancelled_at, media: v.parse(names, JSON.parse(row.cancelled_media ?? '[]')) },
        }),
      };
    } catch (error) {
      throw new AppError({
        code: 'store/row',
        message: `bundle ${row.bundle_id} in the state database can't be read: ${reasonOf(error)}; install the version of stickpin that wrote it again, or move state.db away and plug in the stick of each release that is to stay (the pins on disk hold until then)`,
        disposition: 'fatal',
        cause: error,
      });
    }
  });
}
