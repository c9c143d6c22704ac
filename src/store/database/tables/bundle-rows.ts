import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import type { VerifiedBundle } from '../../../domain/model/bundle.ts';
import type { BundleId } from '../../../domain/model/digest.ts';
import { type ReleaseRecord, releaseRecordSchema } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';
import { AppError, reasonOf } from '../../../platform/app-error.ts';
import type { BundleChange } from '../../../ports/state.ts';

const FIELDS = Object.entries(releaseRecordSchema.entries).map(([field, schema]) => {
  const { type } = 'wrapped' in schema ? schema.wrapped : schema;
  return { field: field as keyof typeof releaseRecordSchema.entries, column: columnOf(field), type };
});

/** `adoptedAt`: `adopted_at`. */
function columnOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The columns of {@link releaseRecordSchema} with their types. */
export const RECORD_COLUMNS: Readonly<Record<string, string>> = Object.fromEntries(
  FIELDS.map(({ column, type }) => [column, ['number', 'boolean'].includes(type) ? 'INTEGER' : 'TEXT']),
);

/** What is known of each adopted bundle. Call the writers within a transaction; they open none. */
export class BundleRows {
  constructor(private readonly database: Database) {}

  /** A stored bundle stays as it is. */
  insert(bundle: StoredBundle): void {
    const { bundleId, payload, contents, signedBy, signerKeyIds, signerRoles, cancelled, adoptedAt } = bundle;
    const { name, version, sequence } = payload;
    this.run(
      'INSERT INTO bundle_content (bundle_id, payload, contents) VALUES (?, ?, ?) ON CONFLICT (bundle_id) DO NOTHING',
      ...[bundleId, JSON.stringify(payload), JSON.stringify(contents)],
    );
    this.run(
      `INSERT INTO bundle (bundle_id, name, version, sequence, signed_by, signer_key_ids, adopted_at)
       VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (bundle_id) DO NOTHING`,
      ...[bundleId, name, version, sequence, JSON.stringify(signedBy), JSON.stringify(signerKeyIds), adoptedAt],
    );
    const record = Object.fromEntries(FIELDS.map(({ field }) => [field, bundle[field]]));
    this.set(bundleId, { ...record, signerRoles });
    if (cancelled !== undefined) this.setCancelled(bundleId, cancelled);
  }

  /** Removes its cancellation and its conditions too. */
  remove(bundleId: BundleId): void {
    for (const table of ['bundle', 'bundle_content', 'cancellation', 'condition'])
      this.run(`DELETE FROM ${table} WHERE bundle_id = ?`, bundleId);
  }

  /** Undefined becomes NULL. */
  set(bundleId: BundleId, fields: BundleChange): void {
    const columns = Object.keys(fields).map((field) => `${columnOf(field)} = ?`);
    const values = Object.entries(fields).map(([field, value]) => storedValue(field, value));
    this.run(`UPDATE bundle SET ${columns.join(', ')} WHERE bundle_id = ?`, ...values, bundleId);
  }

  /** The sequences and times of all bundles of the stream no longer count. */
  setReset(stream: string, at: number): void {
    this.run('UPDATE bundle SET reset_at = ? WHERE name = ?', at, stream);
  }

  /** Undefined: the preload goes on. */
  setCancelled(bundleId: BundleId, cancelled: ReleaseRecord['cancelled']): void {
    this.run('DELETE FROM cancellation WHERE bundle_id = ?', bundleId);
    if (cancelled === undefined) return;
    const { at, media } = cancelled;
    this.run('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)', bundleId, at, JSON.stringify(media));
  }

  pulledByUs(): ReadonlySet<string> {
    return new Set(this.database.prepare<[], string>('SELECT reference FROM brought_image').pluck().all());
  }

  setPulledByUs(reference: string, isPulledByUs: boolean): void {
    const sql = 'INSERT INTO brought_image (reference) VALUES (?)';
    this.run(isPulledByUs ? sql : 'DELETE FROM brought_image WHERE reference = ?', reference);
  }

  private run(sql: string, ...values: readonly unknown[]): void {
    this.database.prepare(sql).run(...values);
  }
}

/** Numbers and texts as they are; all else is JSON. */
function storedValue(field: string, value: unknown): string | number | null {
  if (value === undefined) return null;
  if (field === 'signerRoles') return rolesColumn(value as VerifiedBundle['signerRoles']);
  if (typeof value === 'number' || typeof value === 'string') return value;
  return typeof value === 'boolean' ? Number(value) : JSON.stringify(value);
}

/** Null where all signers are plain keys. */
function rolesColumn(roles: VerifiedBundle['signerRoles'] = []): string | null {
  return roles.length === 0 ? null : JSON.stringify(roles.map(({ keyId, role }) => [keyId, role]));
}

type BundleRow = Readonly<Record<string, string | number | null>> & {
  readonly bundle_id: string;
  readonly payload: string;
  readonly contents: string;
  readonly signed_by: string;
  readonly signer_key_ids: string;
  readonly signer_roles: string | null;
  readonly cancelled_at: number | null;
  readonly cancelled_media: string | null;
};

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

/** @throws what valibot throws for a damaged value */
function recordOf(row: BundleRow) {
  const values = FIELDS.flatMap(({ field, column, type }) => {
    const value = row[column] ?? null;
    if (value === null) return [];
    if (type === 'number' || type === 'string') return [[field, value]];
    return [[field, type === 'boolean' ? value !== 0 : JSON.parse(String(value))]];
  });
  return v.parse(releaseRecordSchema, Object.fromEntries(values));
}

/** Returns them in the order of adoption. @throws AppError `store/row` (`fatal`) */
export function loadBundles(database: Database, revive: BundleReviver): readonly StoredBundle[] {
  const rows = database
    .prepare<[], BundleRow>(
      `SELECT bundle.*, payload, contents, cancellation.at AS cancelled_at, cancellation.media AS cancelled_media
       FROM bundle JOIN bundle_content USING (bundle_id) LEFT JOIN cancellation USING (bundle_id) ORDER BY adopted_at, bundle.rowid`,
    )
    .all();
  return rows.map((row) => {
    try {
      return {
        bundleId: row.bundle_id as BundleId,
        ...revive(row),
        signedBy: v.parse(namesSchema, JSON.parse(row.signed_by)),
        signerKeyIds: v.parse(namesSchema, JSON.parse(row.signer_key_ids)),
        ...(row.signer_roles !== null && { signerRoles: v.parse(signerRolesSchema, JSON.parse(row.signer_roles)) }),
        ...recordOf(row),
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
