import type { Database, Statement } from 'better-sqlite3';
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

/** Call it within a transaction; it opens none. */
export class BundleRows {
  private readonly contentInsertion: Statement;
  private readonly insertion: Statement;
  private readonly reset: Statement;
  private readonly updates = new Map<string, Statement>();

  constructor(private readonly database: Database) {
    this.contentInsertion = database.prepare(
      'INSERT INTO bundle_content (bundle_id, payload, contents) VALUES (?, ?, ?) ON CONFLICT (bundle_id) DO NOTHING',
    );
    this.insertion = database.prepare(
      `INSERT INTO bundle (bundle_id, name, version, sequence, signed_by, adopted_at)
     VALUES (@bundleId, @name, @version, @sequence, @signedBy, @adoptedAt)
     ON CONFLICT (bundle_id) DO NOTHING`,
    );
    this.reset = database.prepare('UPDATE bundle SET reset_at = ? WHERE name = ?');
  }

  /** A stored bundle stays as it is. */
  insert(bundle: StoredBundle): void {
    const { bundleId, payload, contents, signedBy, signerKeyIds, signerRoles, adoptedAt } = bundle;
    const { name, version, sequence } = payload;
    this.contentInsertion.run(bundleId, JSON.stringify(payload), JSON.stringify(contents));
    this.insertion.run({ bundleId, name, version, sequence, adoptedAt, signedBy: JSON.stringify(signedBy) });
    const record = Object.fromEntries(FIELDS.map(({ field }) => [field, bundle[field]]));
    this.set(bundleId, { ...record, signerKeyIds, signerRoles });
  }

  remove(bundleId: BundleId): void {
    for (const table of ['bundle', 'bundle_content'])
      this.database.prepare(`DELETE FROM ${table} WHERE bundle_id = ?`).run(bundleId);
  }

  /** Undefined becomes NULL. */
  set(bundleId: BundleId, fields: BundleChange): void {
    const columns = Object.keys(fields).map(columnOf);
    const sql = `UPDATE bundle SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE bundle_id = ?`;
    const statement = this.updates.get(sql) ?? this.database.prepare(sql);
    this.updates.set(sql, statement);
    statement.run(...Object.entries(fields).map(([field, value]) => storedValue(field, value)), bundleId);
  }

  /** The sequences and times of all bundles of the stream no longer count. */
  setReset(stream: string, at: number): void {
    this.reset.run(at, stream);
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
  readonly signer_key_ids: string | null;
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

/** In the order of adoption. @throws AppError `store/row` (`fatal`) */
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
        ...(row.signer_key_ids !== null && { signerKeyIds: v.parse(namesSchema, JSON.parse(row.signer_key_ids)) }),
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

/** Call it within a transaction; it opens none. */
export class CancellationRows {
  private readonly removal: Statement;
  private readonly insertion: Statement;

  constructor(database: Database) {
    this.removal = database.prepare('DELETE FROM cancellation WHERE bundle_id = ?');
    this.insertion = database.prepare('INSERT INTO cancellation (bundle_id, at, media) VALUES (?, ?, ?)');
  }

  /** Undefined: the preload goes on. */
  set(bundleId: BundleId, cancelled: ReleaseRecord['cancelled']): void {
    this.removal.run(bundleId);
    if (cancelled !== undefined) this.insertion.run(bundleId, cancelled.at, JSON.stringify(cancelled.media));
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
