import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type DiskFault, diskFaultMessage, diskFaultOf, probeDisk } from '../../platform/files/disk-fault.ts';

/** `store/no-space` or `store/read-only` (`retry`). */
export function diskFaultError(path: string, fault: DiskFault, cause?: unknown): AppError {
  const code = fault === 'read-only' ? 'store/read-only' : 'store/no-space';
  return new AppError({ code, message: diskFaultMessage(path, fault), disposition: 'retry', cause });
}

/** {@link diskFaultError} if the disk is the cause, otherwise `code` (`retry`). */
export function fileWriteError(path: string, cause: unknown, code: string, message: string): AppError {
  const fault = diskFaultOf(cause);
  return fault === undefined
    ? new AppError({ code, message, disposition: 'retry', cause })
    : diskFaultError(path, fault, cause);
}

/** These may come from a full or read-only filesystem. */
const AMBIGUOUS = /^SQLITE_(FULL|READONLY|IOERR|CANTOPEN)/;

/** SQLite gives the same codes for other faults, so the directory is probed. */
export function databaseDiskFault(path: string, cause: unknown): DiskFault | undefined {
  const certain = diskFaultOf(cause);
  if (!AMBIGUOUS.test(systemCodeOf(cause) ?? '')) return certain;
  return probeDisk(dirname(path)) ?? certain;
}

/** {@link diskFaultError}, otherwise `store/write` (`retry`). */
export function databaseWriteError(path: string, cause: unknown): AppError {
  const fault = databaseDiskFault(path, cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  const message = `${path} can't be written: ${reasonOf(cause)}; see that it is writable and its disk is sound`;
  return new AppError({ code: 'store/write', message, disposition: 'retry', cause });
}

/** Says what a failed sync means. The codes are those of {@link databaseWriteError}. */
export function unsyncedError(path: string, cause: unknown): AppError {
  const fault = databaseDiskFault(path, cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  const message = `It is not known whether the last changes of ${path} are on the disk: ${reasonOf(cause)}; look for errors of the disk in dmesg. Nothing that depends on them is done before all is in a new file`;
  return new AppError({ code: 'store/write', message, disposition: 'retry', cause });
}

export function mismatch(path: string, digest: Digest, actual: Digest): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} is not written: it should hold ${digest}, and what was read from the medium has digest ${actual}; copy the bundle to the medium again`,
    disposition: 'retry',
  });
}

export function absentBlob(path: string): AppError {
  return new AppError({ code: 'media/gone', message: `${path} is not there`, disposition: 'wait' });
}

/** `how`: a participle. */
export function blobError(path: string, how: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} can't be ${how}: ${reasonOf(cause)}`,
    disposition: 'retry',
    cause,
  });
}

/** `state.db.damaged-20260310T120000Z`. `now`: milliseconds since the epoch. */
export function damagedName(path: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '');
  const name = `${path}.damaged-${time}`;
  for (let count = 1; ; count += 1) {
    const candidate = count === 1 ? name : `${name}-${count}`;
    if (!existsSync(candidate) && !existsSync(`${candidate}-wal`)) return candidate;
  }
}
