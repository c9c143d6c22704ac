import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { databaseDiskFault, diskFaultError } from '../files/write-error.ts';
import { keepRowSums, registerRowSum } from './row-sums.ts';
import { checkVersion, createTables, isEmpty, SCHEMA } from './schema.ts';

/**
 * Opens the state database in WAL mode with `synchronous=NORMAL`, or makes it. See
 * `recording.ts` for what survives a power cut.
 * @throws AppError `store/no-space`, `store/read-only` (`retry`) when the filesystem or file can't
 *   be written; `store/open` (`fatal`) when the file can't be opened or is damaged;
 *   `store/version` (`wait`) when another version wrote it
 */
export function openDatabase(path: string): Database.Database {
  let database: Database.Database | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    // SQLite gives its log the mode of the database.
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    database = new Database(path);
    const isNew = isEmpty(database);
    if (!isNew) checkVersion(database, path);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    database.pragma('foreign_keys = ON');
    registerRowSum(database);
    if (isNew) createDatabase(database);
    else keepRowSums(database);
    tryToWrite(database, path);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof AppError) throw error;
    throw cannotOpen(path, error);
  }
}

/** Call {@link registerRowSum} before. */
function createDatabase(database: Database.Database): void {
  database.transaction(() => {
    createTables(database);
    keepRowSums(database);
    database.exec('INSERT INTO origin (id) VALUES (lower(hex(randomblob(16))))');
  })();
}

/** `store/open`, or the fault of its disk. */
export function cannotOpen(path: string, cause: unknown): AppError {
  const fault = databaseDiskFault(path, cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  if (systemCodeOf(cause)?.startsWith('SQLITE_READONLY')) return onlyReadable(path, cause);
  return new AppError({
    code: 'store/open',
    message: `${path} can't be opened as the state database: ${reasonOf(cause)}; see that the disk works, has room and is writable, and that the file belongs to root`,
    disposition: 'fatal',
    cause,
  });
}

/** SQLite opens a file that it may only read for reading, without an error. */
function tryToWrite(database: Database.Database, path: string): void {
  try {
    database.pragma(`user_version = ${SCHEMA}`);
  } catch (error) {
    // Another program holds the lock, which is no fault of the file.
    if (/^SQLITE_(BUSY|LOCKED)/.test(systemCodeOf(error) ?? '')) return;
    throw isDamage(error) || databaseDiskFault(path, error) !== undefined ? error : onlyReadable(path, error);
  }
}

function onlyReadable(path: string, cause: unknown): AppError {
  const message = `${path} can be read and not written (${reasonOf(cause)}); see that it is not immutable (lsattr) and that its disk works (dmesg)`;
  return new AppError({ code: 'store/read-only', message, disposition: 'retry', cause });
}

/** About the disk, permissions or other processes. */
const NOT_DAMAGE = /^SQLITE_(CANTOPEN|IOERR|READONLY|PERM|FULL|BUSY|LOCKED|NOMEM|INTERRUPT|AUTH|PROTOCOL)/;
const SHORT_READ = /^SQLITE_IOERR_(SHORT_READ|CORRUPTFS)/;
const CORRUPT = /^SQLITE_(CORRUPT|NOTADB)/;

/**
 * The content of the database is wrong, not its disk. A missing table counts: at opening all exist.
 */
export function isDamage(thrown: unknown): boolean {
  if (thrown instanceof AppError && thrown.code === 'store/row') return true;
  const cause = thrown instanceof AppError ? thrown.cause : thrown;
  if (!(cause instanceof Database.SqliteError)) return false;
  return SHORT_READ.test(cause.code) || !NOT_DAMAGE.test(cause.code);
}

export function isCorruption(thrown: unknown): boolean {
  return thrown instanceof Database.SqliteError && (CORRUPT.test(thrown.code) || SHORT_READ.test(thrown.code));
}

/** `store/damaged` (`wait`, for a restart). What SQLite has open is lost when the daemon ends. */
export function removedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `Files of the state database ${path} were removed while stickpin runs: run 'systemctl restart stickpin'. Nothing more is recorded until then. What is known stays in force, and all pins stay. A restart goes on with state.json, as far as it is left`,
    disposition: 'wait',
    cause,
  });
}

/** `store/damaged` (`wait`, for a restart). */
export function damagedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `The state database ${path} is damaged: run 'systemctl restart stickpin'. Nothing more is recorded until then. What is known stays in force, and all pins stay. A restart keeps the damaged file under another name, and goes on with state.json beside it. The cause: ${reasonOf(cause)}`,
    disposition: 'wait',
    cause,
  });
}
