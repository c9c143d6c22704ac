import { type FileHandle, open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';

/**
 * Syncs commits without blocking the event loop, for a database with `synchronous=NORMAL`. Its
 * commits are in the write-ahead log, in order and with checksums; the synced part survives a power
 * cut. `FULL` would sync in each commit, on the event loop, and the registry would wait for a busy
 * disk. `NORMAL` does so only at a checkpoint, once in several hundred commits.
 */
export class WalSync {
  private readonly start: () => Promise<void>;
  private failure: { readonly error: unknown } | undefined;
  private last: Promise<void>;
  private earlier: Promise<void> = Promise.resolve();

  constructor(sync: () => Promise<void>) {
    const shared = shareRuns(sync);
    this.start = () => shared().catch((error: unknown) => this.failed(error));
    this.last = this.start();
  }

  /** Call after a commit. Starts to sync it. */
  committed(): void {
    this.last = this.start();
  }

  /** Call when SQLite could not sync a file of the database. */
  failed(error: unknown): void {
    this.failure ??= { error };
  }

  /** Call with the sync of the replaced connection, whose failure counts. */
  follow(before: WalSync): void {
    this.earlier = before.settled().catch((error: unknown) => this.failed(error));
  }

  /**
   * Resolves when all commits are on the disk, also those of an earlier process. After a failed
   * sync it always throws: Linux marks the pages as written, so another sync succeeds whether they
   * are on the disk or not (fsync(2), "EIO").
   */
  async settled(): Promise<void> {
    await this.earlier;
    await this.last;
    if (this.failure !== undefined) throw this.failure.error;
  }
}

/** The target when the path of the database is a link. */
export function fileOf(database: Database): string {
  const [main] = database.pragma('database_list') as readonly { readonly file: string }[];
  return main?.file ?? database.name;
}

/**
 * Opening and closing the log is safe: SQLite holds no lock on it. On a locked file, closing any
 * handle would release all locks of the process.
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
