import { type FileHandle, open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';

/** Writes commits of a database to the disk without blocking the event loop. */
export interface WalSync {
  /** Call after a commit. Starts to write it to the disk. */
  committed(): void;
  /** Call when SQLite could not sync a file of the database. */
  failed(error: unknown): void;
  /** Call with the sync of a connection that this one takes the place of: its failure counts. */
  follow(earlier: WalSync): void;
  /**
   * Resolves when all commits are on the disk, also those of an earlier process. After a sync that
   * failed, it throws that error for ever: Linux marks the pages as written, so that another sync
   * succeeds whether they are on the disk or not (fsync(2), "EIO").
   */
  settled(): Promise<void>;
}

/**
 * For a database with `synchronous=NORMAL`. Its commits are in the write-ahead log, in order and
 * with checksums; the synced part survives a power cut. With `synchronous=FULL` SQLite would sync
 * in each commit, on the event loop, and all transfers of the registry would wait for a busy disk.
 * With `NORMAL` it does so only at a checkpoint, once in several hundred commits.
 *
 * @param sync writes the log to the disk, as {@link syncLog} does
 */
export function createWalSync(sync: () => Promise<void>): WalSync {
  const shared = shareRuns(sync);
  let failure: { readonly error: unknown } | undefined;
  let last: Promise<void>;
  let earlier: Promise<void> = Promise.resolve();
  const failed = (error: unknown): void => {
    failure ??= { error };
  };
  const start = (): void => {
    last = shared().catch(failed);
  };
  start();
  return {
    committed: start,
    failed,
    follow: (before) => {
      earlier = before.settled().catch(failed);
    },
    settled: async () => {
      await earlier;
      await last;
      if (failure !== undefined) throw failure.error;
    },
  };
}

/** The file of an open database, beside which its log is: the target when its path is a link. */
export function fileOf(database: Database): string {
  const [main] = database.pragma('database_list') as readonly { readonly file: string }[];
  return main?.file ?? database.name;
}

/**
 * Syncs the write-ahead log of a database to the disk. Opening and closing the log is safe: SQLite
 * holds no lock on it. On a locked file, closing any handle would release all locks of the process.
 *
 * @throws system errors unchanged
 */
export async function syncLog(database: Database): Promise<void> {
  // Closing the database has merged the log into it.
  if (!database.open) return;
  const path = `${fileOf(database)}-wal`;
  let log: FileHandle | undefined;
  try {
    log = await open(path, 'r');
    await log.datasync();
  } catch (error) {
    if (database.open || systemCodeOf(error) !== 'ENOENT') throw error;
  } finally {
    await log?.close();
  }
}
