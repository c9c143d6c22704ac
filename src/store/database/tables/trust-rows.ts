import type { Database } from 'better-sqlite3';
import type { BundleId } from '../../../domain/model/digest.ts';
import type { KeyRotation, RejectedName, RevokedKey, Verdict } from '../../../domain/trust/approval.ts';
import type { TrustState } from '../../../ports/state.ts';

interface KeyRow {
  readonly key_id: string;
  readonly pem: string;
  /** NULL: the bundle did not name it. */
  readonly name: string | null;
  readonly bundle_id: string;
  /** '' for the plain keys. */
  readonly role: string;
}

type RevokedRow = Omit<KeyRow, 'pem' | 'name'>;

/** Call the writers within a transaction; they open none. */
export class TrustRows {
  constructor(private readonly database: Database) {}

  load(): TrustState {
    const verdicts = this.all<{ bundle_id: string; verdict: string; at: number; reason: string | null }>(
      'SELECT bundle_id, verdict, at, reason FROM verdict ORDER BY at, rowid',
    );
    const names = this.all<{ name: string; version: string; at: number; reason: string | null }>(
      'SELECT name, version, at, reason FROM rejected_name ORDER BY at, rowid',
    );
    const keys = this.all<KeyRow>('SELECT key_id, pem, name, bundle_id, role FROM rotated_key ORDER BY rowid');
    const revoked = this.all<RevokedRow>('SELECT key_id, bundle_id, role FROM revoked_key ORDER BY rowid');
    return {
      verdicts: verdicts.map((row) => ({
        bundleId: row.bundle_id as BundleId,
        verdict: row.verdict === 'approved' ? 'approved' : 'rejected',
        at: row.at,
        ...(row.reason !== null && { reason: row.reason }),
      })),
      rejectedNames: names.map(({ reason, ...row }) => ({ ...row, ...(reason !== null && { reason }) })),
      rotation: {
        keys: keys.map(({ pem, name, ...row }) => ({ ...namedIn(row), pem, ...(name !== null && { name }) })),
        revoked: revoked.map(namedIn),
      },
    };
  }

  /** Known ones stay as they are. */
  addRotation({ keys, revoked }: KeyRotation, stream: string, at: number): void {
    for (const { keyId, role = '', pem, name = null, bundleId } of keys) {
      this.run(
        'INSERT INTO rotated_key (key_id, role, pem, name, stream, bundle_id, at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key_id, role, bundle_id) DO NOTHING',
        ...[keyId, role, pem, name, stream, bundleId, at],
      );
    }
    for (const { keyId, role = '', bundleId } of revoked) {
      this.run(
        'INSERT INTO revoked_key (key_id, role, bundle_id, at) VALUES (?, ?, ?, ?) ON CONFLICT (key_id, role, bundle_id) DO NOTHING',
        ...[keyId, role, bundleId, at],
      );
    }
  }

  /** What the bundles of the stream revoked stays revoked. */
  removeKeysOf(stream: string): void {
    this.run('DELETE FROM rotated_key WHERE stream = ?', stream);
  }

  setVerdict({ bundleId, verdict, at, reason }: Verdict): void {
    this.run(
      `INSERT INTO verdict (bundle_id, verdict, at, reason) VALUES (?, ?, ?, ?)
       ON CONFLICT (bundle_id) DO UPDATE SET verdict = excluded.verdict, at = excluded.at, reason = excluded.reason`,
      ...[bundleId, verdict, at, reason ?? null],
    );
  }

  removeApproval(bundleId: BundleId): void {
    this.run("DELETE FROM verdict WHERE bundle_id = ? AND verdict = 'approved'", bundleId);
  }

  rejectName({ name, version, at, reason }: RejectedName): void {
    this.run(
      `INSERT INTO rejected_name (name, version, at, reason) VALUES (?, ?, ?, ?)
       ON CONFLICT (name, version) DO UPDATE SET at = excluded.at, reason = excluded.reason`,
      ...[name, version, at, reason ?? null],
    );
  }

  allowName({ name, version }: RejectedName): void {
    this.run('DELETE FROM rejected_name WHERE name = ? AND version = ?', name, version);
  }

  /** Adds what another database refuses. The newer verdict on a release counts. */
  addRefusals({ verdicts, rejectedNames, rotation: { revoked } }: TrustState, at: number): void {
    const before = this.load();
    const isNewer = (all: readonly { readonly at: number }[], other: { readonly at: number }) =>
      all.every((one) => one.at < other.at);
    for (const verdict of verdicts.filter(({ verdict: what }) => what === 'rejected')) {
      const known = before.verdicts.filter(({ bundleId }) => bundleId === verdict.bundleId);
      if (isNewer(known, verdict)) this.setVerdict(verdict);
    }
    for (const rejected of rejectedNames) {
      const known = before.rejectedNames.filter(
        (one) => one.name === rejected.name && one.version === rejected.version,
      );
      if (isNewer(known, rejected)) this.rejectName(rejected);
    }
    this.addRotation({ keys: [], revoked }, '', at);
  }

  private all<Row>(sql: string): Row[] {
    return this.database.prepare<[], Row>(sql).all();
  }

  private run(sql: string, ...values: readonly unknown[]): void {
    this.database.prepare(sql).run(...values);
  }
}

function namedIn({ key_id, bundle_id, role }: Omit<KeyRow, 'pem' | 'name'>): RevokedKey {
  return { keyId: key_id, bundleId: bundle_id as BundleId, ...(role !== '' && { role }) };
}
