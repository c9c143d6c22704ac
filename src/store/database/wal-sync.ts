import { type FileHandle, open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/share-runs.ts';

/** Has what was committed to a database written to the disk, beside the event loop. */
export interface WalSync {
  /** Something was committed: it is on its way to the disk from now on. */
  committed(): void;
  /**
   * Resolves when all that was committed is on the disk, also what an earlier process had
   * committed. What has failed is tried once more for whoever asks.
   *
   * @throws what `sync` throws
   */
  settled(): Promise<void>;
}

/**
 * For a database that is open with `synchronous=NORMAL`: its commits are in the write-ahead log, in
 * order and with checksums, and what was synchronised of that outlives a power cut. SQLite itself
 * would synchronise at each commit, and all transfers of the registry would wait for a busy disk.
 * It still does so at a checkpoint, once in several hundred commits.
 *
 * @param sync has the log written to the disk, as {@link syncLog} does
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
 * Synchronises the write-ahead log of a database. No lock of SQLite lies on it: those that a
 * process has on a file go when it closes any handle of it.
 *
 * @throws system errors as they are; after EIO the kernel may take what it could not write for
 * written
 */
export async function syncLog(database: Database): Promise<void> {
  // Closing has taken the log over into the database.
  if (!database.open) return;
  // SQLite puts it beside the file itself, wherever a link leads.
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
