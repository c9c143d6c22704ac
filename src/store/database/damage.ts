import Database from 'better-sqlite3';
import { AppError, reasonOf } from '../../platform/app-error.ts';

/**
 * SQLite codes about the disk, permissions or other processes, not about the content of the file.
 */
const NOT_DAMAGE = /^SQLITE_(CANTOPEN|IOERR|READONLY|PERM|FULL|BUSY|LOCKED|NOMEM|INTERRUPT|AUTH|PROTOCOL)/;
const SHORT_READ = /^SQLITE_IOERR_(SHORT_READ|CORRUPTFS)/;
const CORRUPT = /^SQLITE_(CORRUPT|NOTADB)/;

/**
 * Whether an error at opening means that the content of the database is wrong, not its disk. A
 * missing table counts: at opening every table must exist.
 */
export function isDamage(thrown: unknown): boolean {
  if (thrown instanceof AppError && thrown.code === 'store/row') return true;
  const cause = thrown instanceof AppError ? thrown.cause : thrown;
  if (!(cause instanceof Database.SqliteError)) return false;
  return SHORT_READ.test(cause.code) || !NOT_DAMAGE.test(cause.code);
}

/** Whether an error on an open database means that its file was damaged. */
export function isCorruption(thrown: unknown): boolean {
  return thrown instanceof Database.SqliteError && (CORRUPT.test(thrown.code) || SHORT_READ.test(thrown.code));
}

/**
 * The error for an open database whose files were removed: `store/damaged` (`wait`, for a restart).
 * What SQLite has open is gone with the next end of the daemon.
 */
export function removedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `Files of the state database ${path} were removed while stickpin runs: nothing more is recorded. What is known stays in force, and all pins stay. A restart goes on with the newest copy and pins.json, as far as they are left. Run 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}

/**
 * The error for a database that was damaged while it was open: `store/damaged` (`wait`, for a
 * restart).
 */
export function damagedError(path: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/damaged',
    message: `The state database ${path} is damaged (${reasonOf(cause)}): nothing more is recorded. What is known stays in force, and all pins stay. A restart keeps the damaged file under another name, and each release is known again when its stick is plugged in. Run 'systemctl restart stickpin'`,
    disposition: 'wait',
    cause,
  });
}
