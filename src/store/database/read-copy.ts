import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { parseRevocationRecord } from '../../bundle/keys/revocation-record.ts';
import type { Contents } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Stored } from '../../domain/state/state.ts';
import { EMPTY_RECORD, type RevocationRecord } from '../../domain/trust/revocation-record.ts';
import { AppError, systemCodeOf } from '../../platform/app-error.ts';
import type { EventRow } from '../../ports/state.ts';
import { openDatabase } from './database.ts';
import { readDocument } from './documents.ts';
import { tableWithWrongSum } from './row-sums.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';
import { EventRows } from './tables/event-rows.ts';
import { TrustRows } from './tables/trust-rows.ts';

/** The daemon may write meanwhile. */
const ATTEMPTS = 20;

/**
 * Runs `use` with a copy of the database at `path`, and removes it: a database with a write-ahead
 * log can't be opened without writing beside it.
 * INVARIANT: neither file changed while both were copied. A checkpoint between the two copies would
 * give a log and a database of different times, which looks like damage.
 * @param use gets the path of the copy and the size of the database
 * @throws errors of the filesystem and of `use`
 */
export async function withDatabaseCopy<T>(
  path: string,
  signal: AbortSignal,
  use: (copy: string, sizeBytes: number) => Promise<T>,
  copyOne: (from: string, to: string) => Promise<void> = copyFile,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'stickpin-state-copy-'));
  try {
    const copy = join(folder, 'state.db');
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      signal.throwIfAborted();
      const before = await stateOf(path);
      await rm(`${copy}-wal`, { force: true });
      await copyOne(`${path}-wal`, `${copy}-wal`).catch(unlessAbsent);
      await copyOne(path, copy);
      if ((await stateOf(path)) === before) break;
    }
    return await use(copy, (await stat(copy)).size);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function stateOf(path: string): Promise<string> {
  const states = [path, `${path}-wal`].map(async (file) => {
    const found = await stat(file, { bigint: true }).catch(unlessAbsent);
    return found === undefined ? 'absent' : `${found.ino} ${found.size} ${found.mtimeNs}`;
  });
  return (await Promise.all(states)).join(', ');
}

function unlessAbsent(error: unknown): undefined {
  if (systemCodeOf(error) !== 'ENOENT') throw error;
  return undefined;
}

function readFrom<T>(path: string, use: (database: Database) => T): T {
  const database = openDatabase(path);
  try {
    return use(database);
  } finally {
    database.close();
  }
}

/** Oldest first. `path` must be a copy, as for all readers here. @throws as `openDatabase` */
export function readEvents(path: string, bundleId: BundleId | undefined, limit: number): readonly EventRow[] {
  return readFrom(path, (database) =>
    new EventRows(database, { keptEvents: Number.MAX_SAFE_INTEGER }).list(bundleId, limit),
  );
}

/** @throws AppError `store/row` (`fatal`) for a damaged row; as `openDatabase` */
export function readRecords(path: string, revive: BundleReviver): Required<Pick<Stored, 'bundles' | 'rejectedNames'>> {
  return readFrom(path, (database) => {
    const table = tableWithWrongSum(database);
    if (table !== undefined) {
      throw new AppError({ code: 'store/row', message: `the table "${table}" is damaged`, disposition: 'fatal' });
    }
    return { bundles: loadBundles(database, revive), rejectedNames: new TrustRows(database).load().rejectedNames };
  });
}

/** What `doctor` compares with the node. */
export interface KeptRecords {
  /** References of all pinned images. */
  readonly references: readonly string[];
  /** @throws AppError `bundle/revocation-record` (`wait`) */
  revocations(): RevocationRecord;
}

/** @throws as `openDatabase` */
export function readKeptRecords(path: string): KeptRecords {
  return readFrom(path, (database) => {
    const contents = database
      .prepare<[], string>('SELECT contents FROM bundle JOIN bundle_content USING (bundle_id) WHERE retired_at IS NULL')
      .pluck()
      .all();
    const images = contents.flatMap((text) => (JSON.parse(text) as Contents).images);
    const record = readDocument(database, 'revocations');
    return {
      references: images.filter(({ pin }) => pin).map(({ reference }) => reference),
      revocations: () => (record === undefined ? EMPTY_RECORD : parseRevocationRecord(record, path)),
    };
  });
}

/** The fault that SQLite's own check finds. @throws as `openDatabase` */
export function damageIn(path: string): string | undefined {
  const found = readFrom(path, (database) => String(database.pragma('quick_check(1)', { simple: true })));
  return found === 'ok' ? undefined : found;
}
