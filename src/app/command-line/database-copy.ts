import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemCodeOf } from '../../platform/app-error.ts';

/**
 * Runs `use` with a copy of the database at `path`, which is removed afterwards: a database with a
 * write-ahead log can't be opened without writing beside it.
 *
 * @param use gets the path of the copy and the size of the database
 * @throws errors of the filesystem and of `use`
 */
export async function withDatabaseCopy<T>(
  path: string,
  signal: AbortSignal,
  use: (copy: string, sizeBytes: number) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'stickpin-state-copy-'));
  try {
    signal.throwIfAborted();
    const copy = join(folder, 'state.db');
    await copyFile(`${path}-wal`, `${copy}-wal`).catch((error: unknown) => {
      if (systemCodeOf(error) !== 'ENOENT') throw error;
    });
    await copyFile(path, copy);
    return await use(copy, (await stat(copy)).size);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
