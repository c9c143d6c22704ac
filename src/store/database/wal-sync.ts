import { type FileHandle, open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/share-runs.ts';

/** Writes commits of a database to the disk without blocking the event loop. */
export interface WalSync {
  /** Call after a commit. Starts to write it to the disk. */
  committed(): void;
  /**
   * Resolves when all commits are on the disk, also those of an earlier process. A failed write is
   * tried once more for each call.
   *
   * @throws errors of `sync`
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
  let last: Promise<void>;
  const start = (): void => {
    last = shared();
    last.catch(() => undefined); // settled() tries again
  };
  start();
  return {
    committed: start,
    settled: async () => {
      const awaited = last;
      try {
        await awaited;
      } catch {
        if (last === awaited) start();
        await last;
      }
    },
  };
}

/**
 * Syncs the write-ahead log of a database to the disk. Opening and closing the log is safe: SQLite
 * holds no lock on it. On a locked file, closing any handle would release all locks of the process.
 *
 * @throws system errors unchanged. After EIO the kernel may report data as written although it was
 *   not
 */
export async function syncLog(database: Database): Promise<void> {
  // Closing the database has merged the log into it.
  if (!database.open) return;
  // When `path` is a link, SQLite puts the log next to the target of the link.
  const [main] = database.pragma('database_list') as readonly { readonly file: string }[];
  let log: FileHandle | undefined;
  try {
    log = await open(`${main?.file}-wal`, 'r');
    await log.datasync();
  } catch (error) {
    if (database.open || systemCodeOf(error) !== 'ENOENT') throw error;
  } finally {
    await log?.close();
  }
}
