import type { Database } from 'better-sqlite3';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { KeyRotation, RejectedName, RevokedKey, Verdict } from '../../../domain/trust/approval.ts';

export interface TrustState {
  readonly verdicts: readonly Verdict[];
  readonly rejectedNames: readonly RejectedName[];
  readonly rotation: KeyRotation;
}

/** Call the writers within a transaction; they open none. */
export interface TrustRows {
  load(): TrustState;
  /** Known ones stay as they are. */
  addRotation(rotation: KeyRotation, at: number): void;
  /** What the bundles of the stream revoked stays revoked. */
  removeKeysOf(stream: string): void;
  setVerdict(verdict: Verdict): void;
  rejectName(rejected: RejectedName): void;
  allowName(release: Pick<RejectedName, 'name' | 'version'>): void;
  revocationRecord(): string | undefined;
  setRevocationRecord(document: string): void;
}

interface KeyRow {
  readonly key_id: string;
  readonly pem: string;
  /** NULL: the bundle did not name it. */
  readonly name: string | null;
  readonly bundle_id: string;
  /** '' for the plain keys. */
  readonly role: string;
}

interface RevokedRow extends Omit<KeyRow, 'pem' | 'name'> {
  /** NULL: the row was written when its bundle was adopted. */
  readonly remade_at: number | null;
}

export function createTrustRows(database: Database): TrustRows {
  const insertKey = database.prepare(
    'INSERT INTO rotated_key (key_id, role, pem, name, bundle_id, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key_id, role, bundle_id) DO NOTHING',
  );
  const insertRevoked = database.prepare(
    'INSERT INTO revoked_key (key_id, role, bundle_id, at, remade_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key_id, role, bundle_id) DO NOTHING',
  );
  const removeKeys = database.prepare(
    'DELETE FROM rotated_key WHERE bundle_id IN (SELECT bundle_id FROM bundle WHERE name = ?)',
  );
  const upsertVerdict = database.prepare(
    `INSERT INTO verdict (bundle_id, verdict, at, reason) VALUES (@bundleId, @verdict, @at, @reason)
     ON CONFLICT (bundle_id) DO UPDATE SET verdict = excluded.verdict, at = excluded.at, reason = excluded.reason`,
  );
  const upsertName = database.prepare(
    `INSERT INTO rejected_name (name, version, at, reason) VALUES (@name, @version, @at, @reason)
     ON CONFLICT (name, version) DO UPDATE SET at = excluded.at, reason = excluded.reason`,
  );
  const removeName = database.prepare('DELETE FROM rejected_name WHERE name = ? AND version = ?');
  const upsertRecord = database.prepare(
    'INSERT INTO revocation_record (id, document) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document',
  );
  const record = database.prepare<[], { document: string }>('SELECT document FROM revocation_record');
  const verdicts = database.prepare<[], { bundle_id: string; verdict: string; at: number; reason: string | null }>(
    'SELECT bundle_id, verdict, at, reason FROM verdict ORDER BY at, rowid',
  );
  const names = database.prepare<[], { name: string; version: string; at: number; reason: string | null }>(
    'SELECT name, version, at, reason FROM rejected_name ORDER BY at, rowid',
  );
  const keys = database.prepare<[], KeyRow>(
    'SELECT key_id, pem, name, bundle_id, role FROM rotated_key ORDER BY rowid',
  );
  const revoked = database.prepare<[], RevokedRow>(
    'SELECT key_id, bundle_id, role, remade_at FROM revoked_key ORDER BY rowid',
  );
  return {
    load: () => ({
      verdicts: verdicts.all().map((row) => ({
        bundleId: row.bundle_id as BundleId,
        verdict: row.verdict === 'approved' ? 'approved' : 'rejected',
        at: row.at,
        ...(row.reason !== null && { reason: row.reason }),
      })),
      rejectedNames: names.all().map(({ reason, ...row }) => ({ ...row, ...(reason !== null && { reason }) })),
      rotation: {
        keys: keys.all().map(({ pem, name, ...row }) => ({ ...namedIn(row), pem, ...(name !== null && { name }) })),
        revoked: revoked.all().map(({ remade_at: remadeAt, ...row }) => ({
          ...namedIn(row),
          ...(remadeAt !== null && { remadeAt }),
        })),
      },
    }),
    addRotation: (rotation, at) => {
      for (const { keyId, role = '', pem, name = null, bundleId } of rotation.keys) {
        insertKey.run(keyId, role, pem, name, bundleId, at);
      }
      for (const { keyId, role = '', bundleId, remadeAt = null } of rotation.revoked) {
        insertRevoked.run(keyId, role, bundleId, at, remadeAt);
      }
    },
    removeKeysOf: (stream) => void removeKeys.run(stream),
    setVerdict: (verdict) => void upsertVerdict.run({ reason: null, ...verdict }),
    rejectName: (rejected) => void upsertName.run({ reason: null, ...rejected }),
    allowName: ({ name, version }) => void removeName.run(name, version),
    revocationRecord: () => record.get()?.document,
    setRevocationRecord: (document) => void upsertRecord.run(document),
  };
}

function namedIn({ key_id, bundle_id, role }: Omit<KeyRow, 'pem' | 'name'>): RevokedKey {
  return { keyId: key_id, bundleId: bundle_id as BundleId, ...(role !== '' && { role }) };
}
