import type { Database, Statement } from 'better-sqlite3';
import * as v from 'valibot';
import type { Signers } from '../../../domain/adoption/adoption.ts';
import type { VerifiedBundle } from '../../../domain/model/bundle.ts';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { MediumId } from '../../../domain/model/medium.ts';
import { RULE_CODES, type RuleCode } from '../../../domain/model/reason.ts';
import type { BadBlob } from '../../../domain/state/checks.ts';
import type { Soak } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';
import type { BundleMark } from '../../../ports/state.ts';

/**
 * Call the writers within a transaction; they don't open one. Times are milliseconds since the
 * epoch.
 */
export interface BundleRows {
  /** A stored bundle stays as it is. `claimedAt`: null when the node had no pins of it before. */
  insert(bundle: VerifiedBundle, adoptedAt: number, claimedAt: number | null): void;
  /** Sets all times except that of retirement, and what belongs to them. */
  setMilestones(bundle: StoredBundle): void;
  setSigners(bundleId: BundleId, signers: Signers): void;
  setRequest(bundleId: BundleId, at: number, overrides: readonly RuleCode[]): void;
  setMark(bundleId: BundleId, what: BundleMark, at: number): void;
  setSoak(bundleId: BundleId, soak: Soak): void;
  setActivationBegun(bundleId: BundleId, at: number | undefined): void;
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  setRetired(bundleId: BundleId, at: number, removeImages: boolean): void;
  setRolledBack(bundleId: BundleId, at: number, reason: string): void;
  /** The sequences and times of all bundles of the stream no longer count. */
  setReset(stream: string, at: number): void;
}

export function createBundleRows(database: Database): BundleRows {
  const insert = database.prepare(
    `INSERT INTO bundle (bundle_id, name, version, sequence, payload, contents, signed_by, signer_key_ids, signer_roles, adopted_at, claimed_at)
     VALUES (@bundleId, @name, @version, @sequence, @payload, @contents, @signedBy, @signerKeyIds, @signerRoles, @adoptedAt, @claimedAt)
     ON CONFLICT (bundle_id) DO NOTHING`,
  );
  const milestones = prepareUpdate(
    database,
    'ready_at',
    'activation_requested_at',
    'activation_overrides',
    'activated_at',
    'active_at',
    'proven_at',
    'rolled_back_at',
    'rolled_back_reason',
    'reset_at',
  );
  const signers = prepareUpdate(database, 'signed_by', 'signer_key_ids', 'signer_roles');
  const request = prepareUpdate(database, 'activation_requested_at', 'activation_overrides');
  const marks: Readonly<Record<BundleMark, Statement>> = {
    readyAt: prepareUpdate(database, 'ready_at'),
    activationRequestedAt: prepareUpdate(database, 'activation_requested_at'),
    activatedAt: prepareUpdate(database, 'activated_at'),
    activeAt: prepareUpdate(database, 'active_at'),
    provenAt: prepareUpdate(database, 'proven_at'),
  };
  const soaks = prepareUpdate(database, 'soak');
  const begun = prepareUpdate(database, 'activation_begun_at');
  const bad = prepareUpdate(database, 'bad_blobs');
  const retired = prepareUpdate(database, 'retired_at', 'remove_images');
  const reset = database.prepare('UPDATE bundle SET reset_at = ? WHERE name = ?');
  const rolledBack = prepareUpdate(database, 'rolled_back_at', 'rolled_back_reason');
  return {
    insert: (bundle, adoptedAt, claimedAt) => void insert.run({ ...columnsOf(bundle), adoptedAt, claimedAt }),
    setMilestones: (bundle) => {
      const { activationOverrides: overrides } = bundle;
      milestones.run(
        bundle.readyAt ?? null,
        bundle.activationRequestedAt ?? null,
        overrides === undefined ? null : JSON.stringify(overrides),
        bundle.activatedAt ?? null,
        bundle.activeAt ?? null,
        bundle.provenAt ?? null,
        bundle.rolledBackAt ?? null,
        bundle.rolledBackReason ?? null,
        bundle.resetAt ?? null,
        bundle.bundleId,
      );
    },
    setSigners: (bundleId, { signedBy, signerKeyIds, signerRoles }) =>
      void signers.run(JSON.stringify(signedBy), JSON.stringify(signerKeyIds), rolesColumn(signerRoles), bundleId),
    setRequest: (bundleId, at, overrides) => void request.run(at, JSON.stringify(overrides), bundleId),
    setMark: (bundleId, what, at) => void marks[what].run(at, bundleId),
    setSoak: (bundleId, soak) => void soaks.run(JSON.stringify(soak), bundleId),
    setActivationBegun: (bundleId, at) => void begun.run(at ?? null, bundleId),
    setBadBlobs: (bundleId, badBlobs) =>
      void bad.run(badBlobs.length === 0 ? null : JSON.stringify(badBlobs), bundleId),
    setRetired: (bundleId, at, removeImages) => void retired.run(at, Number(removeImages), bundleId),
    setReset: (stream, at) => void reset.run(at, stream),
    setRolledBack: (bundleId, at, reason) => void rolledBack.run(at, reason, bundleId),
  };
}

/** The statement takes the values in the order of `columns`, then the bundle. */
function prepareUpdate(database: Database, ...columns: readonly string[]): Statement {
  const values = columns.map((column) => `${column} = ?`).join(', ');
  return database.prepare(`UPDATE bundle SET ${values} WHERE bundle_id = ?`);
}

function columnsOf(bundle: VerifiedBundle): Record<string, string | number | null> {
  const { name, version, sequence } = bundle.payload;
  return {
    bundleId: bundle.bundleId,
    name,
    version,
    sequence,
    payload: JSON.stringify(bundle.payload),
    contents: JSON.stringify(bundle.contents),
    signedBy: JSON.stringify(bundle.signedBy),
    signerKeyIds: bundle.signerKeyIds === undefined ? null : JSON.stringify(bundle.signerKeyIds),
    signerRoles: rolesColumn(bundle.signerRoles),
  };
}

/** Null where all signers are plain keys. */
function rolesColumn(roles: VerifiedBundle['signerRoles'] = []): string | null {
  return roles.length === 0 ? null : JSON.stringify(roles.map(({ keyId, role }) => [keyId, role]));
}

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

const namesSchema = v.array(v.string());
const signerRolesSchema = v.array(
  v.pipe(
    v.tuple([v.string(), v.string()]),
    v.transform(([keyId, role]) => ({ keyId, role })),
  ),
);
const overridesSchema = v.array(v.picklist(RULE_CODES));

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

/** In the order of adoption. @throws AppError `store/row` (`fatal`) */
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
        signedBy: v.parse(namesSchema, JSON.parse(row.signed_by)),
        ...(row.signer_key_ids !== null && { signerKeyIds: v.parse(namesSchema, JSON.parse(row.signer_key_ids)) }),
        ...(row.signer_roles !== null && { signerRoles: v.parse(signerRolesSchema, JSON.parse(row.signer_roles)) }),
        adoptedAt: row.adopted_at,
        ...(row.reset_at !== null && { resetAt: row.reset_at }),
        ...(row.claimed_at !== null && { claimedAt: row.claimed_at }),
        ...(row.ready_at !== null && { readyAt: row.ready_at }),
        ...(row.activation_requested_at !== null && { activationRequestedAt: row.activation_requested_at }),
        ...(row.activation_overrides !== null && {
          activationOverrides: v.parse(overridesSchema, JSON.parse(row.activation_overrides)),
        }),
        ...(row.activation_begun_at !== null && { activationBegunAt: row.activation_begun_at }),
        ...(row.activated_at !== null && { activatedAt: row.activated_at }),
        ...lifecycleOf(row),
        ...(row.cancelled_at !== null && {
          cancelled: { at: row.cancelled_at, media: v.parse(namesSchema, JSON.parse(row.cancelled_media ?? '[]')) },
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

/** Call the writers within a transaction; they don't open one. */
export interface CancellationRows {
  /** Replaces the row of the bundle. `at`: milliseconds since the epoch. */
  set(bundleId: BundleId, at: number, media: readonly MediumId[]): void;
  remove(bundleId: BundleId): void;
}

export function createCancellationRows(database: Database): CancellationRows {
  const remove = database.prepare('DELETE FROM cancellation WHERE bundle_id = ?');
  const insert = database.prepare('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)');
  return {
    set: (bundleId, at, media) => {
      remove.run(bundleId);
      insert.run(bundleId, at, JSON.stringify(media));
    },
    remove: (bundleId) => void remove.run(bundleId),
  };
}

/**
 * The references that stickpin pulled. Call the writer within a transaction; it does not open one.
 */
export interface PulledImageRows {
  load(): ReadonlySet<string>;
  set(reference: string, isPulledByUs: boolean): void;
}

export function createPulledImageRows(database: Database): PulledImageRows {
  const select = database.prepare<[], string>('SELECT reference FROM brought_image').pluck();
  const insert = database.prepare('INSERT INTO brought_image (reference) VALUES (?)');
  const remove = database.prepare('DELETE FROM brought_image WHERE reference = ?');
  return {
    load: () => new Set(select.all()),
    set: (reference, isPulledByUs) => void (isPulledByUs ? insert : remove).run(reference),
  };
}
