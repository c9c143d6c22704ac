import type { Database } from 'better-sqlite3';
import * as v from 'valibot';
import type { BundleId } from '../../../domain/model/digest.ts';
import { isRolledBack } from '../../../domain/release/recorded-phase.ts';
import { type PastRelease, pastRecord } from '../../../domain/state/past.ts';
import { releaseRecordSchema } from '../../../domain/state/release-record.ts';
import type { StoredBundle } from '../../../domain/state/state.ts';

/** So many lines stay of releases that were rolled back, and as many of others. */
const KEPT_LINES = 200;

interface PastRow {
  readonly bundle_id: string;
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  readonly record: string;
  readonly why: string | null;
}

/** Releases that are over. Call the writers within a transaction; they open none. */
export class PastRows {
  constructor(private readonly database: Database) {}

  /** Oldest first. @throws what valibot throws for a damaged value */
  load(): readonly PastRelease[] {
    const rows = this.database.prepare<[], PastRow>('SELECT * FROM past ORDER BY rowid').all();
    return rows.map(({ bundle_id, name, version, sequence, record, why }) => ({
      bundleId: bundle_id as BundleId,
      payload: { name, version, sequence },
      record: v.parse(releaseRecordSchema, JSON.parse(record)),
      ...(why !== null && { why }),
    }));
  }

  /** The history says why it was retired. */
  add(bundle: StoredBundle): void {
    const { bundleId, payload } = bundle;
    const { bundleId: _id, payload: _payload, contents: _contents, ...others } = bundle;
    const { signedBy: _signers, signerKeyIds: _ids, signerRoles: _roles, ...record } = others;
    const rolledBack = Number(isRolledBack(bundle));
    this.database
      .prepare(
        `INSERT OR REPLACE INTO past (bundle_id, name, version, sequence, rolled_back, record, why) VALUES (?, ?, ?, ?, ?, ?,
           (SELECT message FROM event WHERE bundle_id = ? AND kind IN ('bundleRetired', 'roomMade') ORDER BY event_id DESC LIMIT 1))`,
      )
      .run(
        ...[bundleId, payload.name, payload.version, payload.sequence, rolledBack],
        ...[JSON.stringify(pastRecord(record)), bundleId],
      );
    this.database
      .prepare(
        'DELETE FROM past WHERE rowid IN (SELECT rowid FROM past WHERE rolled_back = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?)',
      )
      .run(rolledBack, KEPT_LINES);
  }

  remove(bundleId: BundleId): void {
    this.database.prepare('DELETE FROM past WHERE bundle_id = ?').run(bundleId);
  }

  /** The sequences and times of all releases of the stream no longer count. */
  setReset(stream: string, at: number): void {
    this.database.prepare("UPDATE past SET record = json_set(record, '$.resetAt', ?) WHERE name = ?").run(at, stream);
  }
}
