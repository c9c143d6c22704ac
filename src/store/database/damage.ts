import Database from 'better-sqlite3';
import { AppError, reasonOf } from '../../platform/app-error.ts';

/**
 * Codes of SQLite that tell of the disk, of rights and of other processes, not of what is in the
 * file.
 */
const NOT_DAMAGE = /^SQLITE_(CANTOPEN|IOERR|READONLY|PERM|FULL|BUSY|LOCKED|NOMEM|INTERRUPT|AUTH|PROTOCOL)/;
const SHORT_READ = /^SQLITE_IOERR_(SHORT_READ|CORRUPTFS)/;
const CORRUPT = /^SQLITE_(CORRUPT|NOTADB)/;

/**
 * Whether an error at opening tells that the content of the database is wrong, and not the disk
 * that it lies on. A missing table counts: nobody has worked with this file yet.
 */
export function isDamage(thrown: unknown): boolean {
  if (thrown instanceof AppError && thrown.code === 'store/row') return true;
  const cause = thrown instanceof AppError ? thrown.cause : thrown;
  if (!(cause instanceof Database.SqliteError)) return false;
  return SHORT_READ.test(cause.code) || !NOT_DAMAGE.test(cause.code);
}

/** Whether an error on a database in use tells that its file was damaged meanwhile. */
export function isCorruption(thrown: unknown): boolean {
  return thrown instanceof Database.SqliteError && (CORRUPT.test(thrown.code) || SHORT_READ.test(thrown.code));
}

/**
 * The database at `path` was damaged while it was in use: `store/damaged` (`wait`, for a restart).
 */
export function damagedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `The state database ${path} is damaged (${reasonOf(cause)}): nothing more is recorded. What is known stays in force, and all pins stay. Run 'systemctl restart stickpin': the damaged file is kept under another name, and each release is known again when its stick is plugged in`,
    disposition: 'wait',
    cause,
  });
}
