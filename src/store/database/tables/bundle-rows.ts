import type { Database, Statement } from 'better-sqlite3';
import * as v from 'valibot';
import type { Signers } from '../../../domain/adoption/adoption.ts';
import type { VerifiedBundle } from '../../../domain/model/bundle.ts';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { MediumId } from '../../../domain/model/medium.ts';
import { RULE_CODES } from '../../../domain/model/reason.ts';
import type { BadBlob } from '../../../domain/state/checks.ts';
import type { Soak } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';
import type { BundleMark } from '../../../ports/state.ts';

type Column = Exclude<keyof BundleRow, 'bundle_id' | 'cancelled_at' | 'cancelled_media'>;

const MARKS = {
  readyAt: 'ready_at',
  activationRequestedAt: 'activation_requested_at',
  activatedAt: 'activated_at',
  activeAt: 'active_at',
  provenAt: 'proven_at',
} as const satisfies Record<BundleMark, Column>;

/** Call it within a transaction; it opens none. Times are milliseconds since the epoch. */
export class BundleRows {
  private readonly insertion: Statement;
  private readonly reset: Statement;
  private readonly updates = new Map<string, Statement>();
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
    this.insertion = database.prepare(
      `INSERT INTO bundle (bundle_id, name, version, sequence, payload, contents, signed_by, signer_key_ids, signer_roles, adopted_at, claimed_at)
     VALUES (@bundleId, @name, @version, @sequence, @payload, @contents, @signedBy, @signerKeyIds, @signerRoles, @adoptedAt, @claimedAt)
     ON CONFLICT (bundle_id) DO NOTHING`,
    );
    this.reset = database.prepare('UPDATE bundle SET reset_at = ? WHERE name = ?');
  }

  /** A stored bundle stays as it is. `claimedAt`: null when the node had no pins of it before. */
  insert(bundle: VerifiedBundle, adoptedAt: number, claimedAt: number | null): void {
    this.insertion.run({ ...columnsOf(bundle), adoptedAt, claimedAt });
  }

  /** Undefined becomes NULL. */
  set(bundleId: BundleId, values: Partial<Record<Column, string | number | null | undefined>>): void {
    const columns = Object.keys(values);
    const sql = `UPDATE bundle SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE bundle_id = ?`;
    const statement = this.updates.get(sql) ?? this.database.prepare(sql);
    this.updates.set(sql, statement);
    statement.run(...Object.values(values).map((value) => value ?? null), bundleId);
  }

  setMark(bundleId: BundleId, what: BundleMark, at: number): void {
    this.set(bundleId, { [MARKS[what]]: at });
  }

  /** Sets all times but that of retirement, and what belongs to them. */
  setMilestones(bundle: StoredBundle): void {
    const { activationOverrides: overrides } = bundle;
    this.set(bundle.bundleId, {
      ready_at: bundle.readyAt,
      activation_requested_at: bundle.activationRequestedAt,
      activation_overrides: overrides && JSON.stringify(overrides),
      activated_at: bundle.activatedAt,
      active_at: bundle.activeAt,
      proven_at: bundle.provenAt,
      rolled_back_at: bundle.rolledBackAt,
      rolled_back_reason: bundle.rolledBackReason,
      reset_at: bundle.resetAt,
    });
  }

  setSigners(bundleId: BundleId, { signedBy, signerKeyIds, signerRoles }: Signers): void {
    const [signed_by, signer_key_ids] = [JSON.stringify(signedBy), JSON.stringify(signerKeyIds)];
    this.set(bundleId, { signed_by, signer_key_ids, signer_roles: rolesColumn(signerRoles) });
  }

  /** The sequences and times of all bundles of the stream no longer count. */
  setReset(stream: string, at: number): void {
    this.reset.run(at, stream);
  }
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

/** Parses the JSON of a row. The `bundle` room owns the schema. */
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

/** Call it within a transaction; it opens none. */
export class CancellationRows {
  private readonly removal: Statement;
  private readonly insertion: Statement;

  constructor(database: Database) {
    this.removal = database.prepare('DELETE FROM cancellation WHERE bundle_id = ?');
    this.insertion = database.prepare('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)');
  }

  /** `at`: milliseconds since the epoch. */
  set(bundleId: BundleId, at: number, media: readonly MediumId[]): void {
    this.remove(bundleId);
    this.insertion.run(bundleId, at, JSON.stringify(media));
  }

  remove(bundleId: BundleId): void {
    this.removal.run(bundleId);
  }
}

/** Call it within a transaction; it opens none. */
export class PulledImageRows {
  private readonly selection: Statement<[], string>;
  private readonly insertion: Statement;
  private readonly removal: Statement;

  constructor(database: Database) {
    this.selection = database.prepare<[], string>('SELECT reference FROM brought_image').pluck();
    this.insertion = database.prepare('INSERT INTO brought_image (reference) VALUES (?)');
    this.removal = database.prepare('DELETE FROM brought_image WHERE reference = ?');
  }

  load(): ReadonlySet<string> {
    return new Set(this.selection.all());
  }

  set(reference: string, isPulledByUs: boolean): void {
    (isPulledByUs ? this.insertion : this.removal).run(reference);
  }
}
