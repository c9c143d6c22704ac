import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { databaseDiskFault, diskFaultError } from '../files/write-error.ts';
import { isDamage } from './damage.ts';
import { MIGRATIONS } from './migrations.ts';
import { fillRowSums, keepRowSums, registerRowSum } from './row-sums.ts';

/**
 * Opens the state database in WAL mode with `synchronous=NORMAL`, and migrates it to the newest
 * schema. See `wal-sync.ts` for what survives a power cut.
 *
 * @throws AppError `store/no-space`, `store/read-only` (`retry`) when its filesystem or the file
 *   can't be written; `store/open` (`fatal`) when the file can't be opened or is damaged;
 *   `store/newer` (`fatal`) when a newer stickpin wrote it
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

/** The error of a database that can't be opened; `store/open`, or the fault of its disk. */
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

/** SQLite opens a file that it may only read, or that failed once, for reading without an error. */
function tryToWrite(database: Database.Database, path: string): void {
  try {
    database.pragma(`user_version = ${MIGRATIONS.length}`);
  } catch (error) {
    // Another program holds the lock: that says nothing of the file.
    if (/^SQLITE_(BUSY|LOCKED)/.test(systemCodeOf(error) ?? '')) return;
    throw isDamage(error) || databaseDiskFault(path, error) !== undefined ? error : onlyReadable(path, error);
  }
}

function onlyReadable(path: string, cause: unknown): AppError {
  const message = `${path} can be read and not written (${reasonOf(cause)}); see that it is not immutable (lsattr) and that its disk works (dmesg)`;
  return new AppError({ code: 'store/read-only', message, disposition: 'retry', cause });
}

function migrate(database: Database.Database, path: string): void {
  const version = Number(database.pragma('user_version', { simple: true }));
  if (version > MIGRATIONS.length) {
    throw new AppError({
      code: 'store/newer',
      message: `${path} was written by a newer stickpin (schema ${version}, this one knows ${MIGRATIONS.length}); install that version again`,
      disposition: 'fatal',
    });
  }
  if (version === MIGRATIONS.length) return;
  database.transaction(() => {
    for (const step of MIGRATIONS.slice(version)) database.exec(step);
    fillRowSums(database);
    database.pragma(`user_version = ${MIGRATIONS.length}`);
  })();
}
