import type { Database, Statement } from 'better-sqlite3';
import type { Signers } from '../../../domain/adoption/adoption.ts';
import type { VerifiedBundle } from '../../../domain/model/bundle.ts';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { RuleCode } from '../../../domain/model/reason.ts';
import type { BadBlob } from '../../../domain/state/checks.ts';
import type { Soak } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';
import type { BundleMark } from '../../../ports/state.ts';

/**
 * The writers of the table of bundles; `loadBundles` reads it. Call them within a transaction; they
 * don't open one. Times are milliseconds since the epoch.
 */
export interface BundleRows {
  /**
   * Adds a bundle; a stored one stays as it is. @param claimedAt null when the node had no pins of
   * it before
   */
  insert(bundle: VerifiedBundle, adoptedAt: number, claimedAt: number | null): void;
  /** Sets all times and what goes with them, except of retirement. */
  setMilestones(bundle: StoredBundle): void;
  setSigners(bundleId: BundleId, signers: Signers): void;
  setRequest(bundleId: BundleId, at: number, overrides: readonly RuleCode[]): void;
  setMark(bundleId: BundleId, what: BundleMark, at: number): void;
  setSoak(bundleId: BundleId, soak: Soak): void;
  setActivationBegun(bundleId: BundleId, at: number | undefined): void;
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  setRetired(bundleId: BundleId, at: number, removeImages: boolean): void;
  setRolledBack(bundleId: BundleId, at: number, reason: string): void;
  /** Marks all bundles of a stream: what they say of sequence and time counts no more. */
  setReset(stream: string, at: number): void;
}

/** Prepares the statements that write the table `bundle`. */
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

/** Takes the values in the order of `columns`, then the bundle. */
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
