import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { databaseDiskFault, diskFaultError } from '../files/write-error.ts';
import { MIGRATIONS } from './migrations.ts';
import { columnsOf, fillRowSums, keepRowSums, registerRowSum } from './row-sums.ts';
import { RECORD_COLUMNS } from './tables/bundle-rows.ts';

/**
 * Opens the state database in WAL mode with `synchronous=NORMAL`, and migrates it. See `wal.ts` for
 * what survives a power cut.
 * @throws AppError `store/no-space`, `store/read-only` (`retry`) when the filesystem or file can't
 *   be written; `store/open` (`fatal`) when the file can't be opened or is damaged; `store/newer`
 *   (`fatal`) when a newer stickpin wrote it
 */
export function openDatabase(path: string): Database.Database {
  let database: Database.Database | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    // SQLite gives its log the mode of the database.
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
    database = new Database(path);
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = NORMAL');
    database.pragma('foreign_keys = ON');
    registerRowSum(database);
    migrate(database, path);
    keepRowSums(database);
    tryToWrite(database, path);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof AppError) throw error;
    throw cannotOpen(path, error);
  }
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
    database.pragma(`user_version = ${MIGRATIONS.length}`);
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

/** After {@link registerRowSum}. @throws AppError `store/newer` (`fatal`) */
export function migrate(database: Database.Database, path: string): void {
  const version = Number(database.pragma('user_version', { simple: true }));
  if (version > MIGRATIONS.length) throw newerError(path, version);
  if (version < MIGRATIONS.length) {
    database.transaction(() => {
      for (const step of MIGRATIONS.slice(version)) database.exec(step);
      fillRowSums(database);
      database.pragma(`user_version = ${MIGRATIONS.length}`);
    })();
  }
  addMissing(database);
}

/** `store/newer` (`fatal`): nothing is damaged, so it is not set aside. */
export function newerError(path: string, schema: number): AppError {
  const message = `${path} was written by a newer stickpin (schema ${schema}, this one knows ${MIGRATIONS.length}); install that version again`;
  return new AppError({ code: 'store/newer', message, disposition: 'fatal' });
}

/**
 * `store/newer` (`fatal`): all is as it was written, so another version wrote what is not known.
 */
export function unknownError(path: string, cause: unknown): AppError {
  const message = `${path} is whole, and has a record that this stickpin does not know (${reasonOf(cause)}): install the version that wrote it again`;
  return new AppError({ code: 'store/newer', message, disposition: 'fatal' });
}

/**
 * What an earlier stickpin ignores and keeps, so that a return to it finds a database of its own
 * schema. A column without a value changes no checksum of a row.
 */
export function addMissing(database: Database.Database): void {
  database.exec('CREATE TABLE IF NOT EXISTS document (name TEXT PRIMARY KEY, content TEXT NOT NULL, sum TEXT) STRICT');
  const wanted = { origin: { counter: 'INTEGER' }, bundle: RECORD_COLUMNS };
  for (const [table, columns] of Object.entries(wanted)) {
    const present = new Set(columnsOf(database, table).map(({ name }) => name));
    for (const [name, type] of Object.entries(columns)) {
      if (!present.has(name)) database.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${type}`);
    }
  }
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
    message: `Files of the state database ${path} were removed while stickpin runs: nothing more is recorded. What is known stays in force, and all pins stay. A restart goes on with state.json, as far as it is left. Run 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}

/** `store/damaged` (`wait`, for a restart). */
export function damagedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `The state database ${path} is damaged (${reasonOf(cause)}): nothing more is recorded. What is known stays in force, and all pins stay. A restart keeps the damaged file under another name, and goes on with state.json beside it. Run 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}
