import { closeSync, copyFileSync, fsyncSync, lstatSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { copyFile, mkdtemp, open, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { syncFile, syncFolder } from '../../platform/files/durable-file.ts';
import { damagedName, databaseWriteError, fileWriteError } from '../files/write-error.ts';

const MODE = 0o600;

/** The newer one first: `state.db.copy` and `state.db.copy-before`. */
function copiesOf(path: string): readonly [string, string] {
  return [`${path}.copy`, `${path}.copy-before`];
}

/**
 * At most two copies exist beside the database, and a power cut leaves at least one whole.
 * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`); then the copies
 *   are as before
 */
export async function writeCopy(database: Database.Database): Promise<void> {
  const path = database.name;
  const [newest, before] = copiesOf(path);
  const staged = `${newest}.new`;
  try {
    await rm(staged, { recursive: true, force: true });
    for (const copy of copiesOf(path)) await setAsideIfNoFile(copy);
    // SQLite writes to an empty file and keeps its mode.
    await (await open(staged, 'wx', MODE)).close();
    database.prepare('VACUUM INTO ?').run(staged);
    await syncFile(staged, MODE);
    if (isFile(newest)) await rename(newest, before);
    await rename(staged, newest);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(staged, { force: true }).catch(() => undefined);
    if (error instanceof Database.SqliteError) throw databaseWriteError(newest, error);
    throw fileWriteError(newest, error, 'store/write', `${newest} can't be written: ${reasonOf(error)}`);
  }
}

/** A folder, for example, would prevent the rename. */
async function setAsideIfNoFile(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isFile()) await rename(path, damagedName(path, found.mtimeMs));
}

export interface RestoredCopy {
  readonly path: string;
  /** Milliseconds since the epoch. */
  readonly writtenAt: number;
}

/**
 * Puts the newest copy without damage in the place of a lost database, and keeps the copy.
 * @param of the database of the copies
 * @throws system errors when the file can't be written; errors of `damageOf`
 */
export function restoreCopy(
  path: string,
  of: string,
  damageOf: (path: string) => string | undefined,
): RestoredCopy | undefined {
  const staged = `${path}.new`;
  for (const copy of copiesOf(of)) {
    if (!isFile(copy) || statSync(copy).size === 0) continue;
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${staged}${suffix}`, { recursive: true, force: true });
    copyFileSync(copy, staged);
    const damage = damageOf(staged);
    // A reader of a database in WAL mode leaves these behind.
    for (const suffix of ['-wal', '-shm']) rmSync(`${staged}${suffix}`, { force: true });
    if (damage !== undefined) {
      rmSync(staged, { force: true });
      continue;
    }
    syncNow(staged);
    renameSync(staged, path);
    return { path: copy, writtenAt: Math.floor(statSync(copy).mtimeMs) };
  }
  return undefined;
}

/** Beside the database at `path`, from the newest copy of `of`. */
export function stageCopy(of: string, path: string): void {
  rmSync(`${path}.new`, { recursive: true, force: true });
  copyFileSync(copiesOf(of)[0], `${path}.new`);
  syncNow(`${path}.new`);
}

/**
 * Replaces a closed database by the file of {@link stageCopy}. The database is removed first: after
 * a crash the next start takes the newest copy, without an old log.
 */
export function putStaged(path: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
  renameSync(`${path}.new`, path);
  syncNow(dirname(path));
}

export function hasCopy(path: string): boolean {
  return copiesOf(path).some(isFile);
}

function syncNow(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function isFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

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
