import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemCodeOf } from '../../platform/app-error.ts';

/** While the daemon writes. */
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
