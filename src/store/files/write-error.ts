import { dirname } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type DiskFault, diskFaultMessage, diskFaultOf, probeDisk } from '../../platform/files/disk-fault.ts';

/**
 * The error for a filesystem that can't be written: `store/no-space` or `store/read-only`
 * (`retry`).
 */
export function diskFaultError(path: string, fault: DiskFault, cause?: unknown): AppError {
  const code = fault === 'read-only' ? 'store/read-only' : 'store/no-space';
  return new AppError({ code, message: diskFaultMessage(path, fault), disposition: 'retry', cause });
}

/**
 * The error for a failed write of a file: {@link diskFaultError} if the disk is the cause,
 * otherwise `code` (`retry`) with `message`.
 */
export function fileWriteError(path: string, cause: unknown, code: string, message: string): AppError {
  const fault = diskFaultOf(cause);
  return fault === undefined
    ? new AppError({ code, message, disposition: 'retry', cause })
    : diskFaultError(path, fault, cause);
}

/** SQLite codes that may have a full or read-only filesystem as their cause. */
const AMBIGUOUS = /^SQLITE_(FULL|READONLY|IOERR|CANTOPEN)/;

/**
 * The disk fault that caused a SQLite error. SQLite gives `SQLITE_CANTOPEN` on a read-only
 * filesystem and `SQLITE_IOERR` on a full one, so the directory is probed.
 */
export function databaseDiskFault(path: string, cause: unknown): DiskFault | undefined {
  const certain = diskFaultOf(cause);
  if (!AMBIGUOUS.test(systemCodeOf(cause) ?? '')) return certain;
  return probeDisk(dirname(path)) ?? certain;
}

/**
 * The error for a failed write to the database at `path`: {@link diskFaultError}, otherwise
 * `store/write` (`retry`).
 */
export function databaseWriteError(path: string, cause: unknown): AppError {
  const fault = databaseDiskFault(path, cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  const message = `${path} can't be written: ${reasonOf(cause)}; see that it is writable and its disk is sound`;
  return new AppError({ code: 'store/write', message, disposition: 'retry', cause });
}

/**
 * The error after a sync of the database at `path` that failed: {@link diskFaultError}, otherwise
 * `store/write` (`retry`).
 */
export function unsyncedError(path: string, cause: unknown): AppError {
  const fault = databaseDiskFault(path, cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  const message = `It is not known whether the last changes of ${path} are on the disk: ${reasonOf(cause)}; look for errors of the disk in dmesg. Nothing that depends on them is done before all is in a new file`;
  return new AppError({ code: 'store/write', message, disposition: 'retry', cause });
}
