import { type FileHandle, open } from 'node:fs/promises';
import { systemCodeOf } from '../platform/app-error.ts';
import { shareRuns } from '../platform/share-runs.ts';

/** Has the write-ahead log of a database written to the disk, beside the event loop. */
export interface WalSync {
  /** Something was committed: it is on its way to the disk from now on. */
  committed(): void;
  /** Resolves when all that was committed is on the disk. What failed is thrown once, to whoever asks next. @throws system errors as they are */
  settled(): Promise<void>;
}

/**
 * For a database that is open with `synchronous=NORMAL`: its commits are in the log, in order and with checksums, and what was synchronised of that outlives
 * a power cut. A checkpoint synchronises by itself. SQLite would do so at each commit, and all transfers of the registry would wait for
 * a busy disk.
 */
export function createWalSync(database: string): WalSync {
  const sync = shareRuns(() => syncFile(`${database}-wal`));
  let last: Promise<void> = Promise.resolve();
  return {
    committed: () => {
      last = sync();
      last.catch(() => undefined); // thrown by settled()
    },
    settled: async () => {
      const awaited = last;
      try {
        await awaited;
      } catch (error) {
        if (last === awaited) last = Promise.resolve();
        throw error;
      }
    },
  };
}

/** No lock of SQLite lies on the log: those that a process has on a file go when it closes any handle of it. */
async function syncFile(path: string): Promise<void> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    await file.datasync();
  } catch (error) {
    // The log goes when the database is closed, after it was taken over into it.
    if (systemCodeOf(error) !== 'ENOENT') throw error;
  } finally {
    await file?.close();
  }
}
