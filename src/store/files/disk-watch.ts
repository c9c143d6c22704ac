import type { Fault } from '../../domain/model/reason.ts';
import type { AppError } from '../../platform/app-error.ts';
import { probeDisk, visibleDiskFault } from '../../platform/files/disk-fault.ts';
import { diskFaultError } from './write-error.ts';

/** Tells whether the filesystem of stickpin's own files can be written. */
export interface DiskWatch {
  /** Call when a write failed. @returns the same error, to be thrown */
  failed(error: AppError): AppError;
  /** As in `Durability.trouble`. */
  trouble(): Fault | undefined;
}

/**
 * Watches the filesystem of `directory`. After a failed write it reports trouble until a test write
 * succeeds.
 */
export function createDiskWatch(directory: string): DiskWatch {
  let hasFailed = false;
  return {
    failed: (error) => {
      hasFailed = true;
      return error;
    },
    trouble: () => {
      const fault = hasFailed ? probeDisk(directory) : visibleDiskFault(directory);
      hasFailed = hasFailed && fault !== undefined;
      if (fault === undefined) return undefined;
      const { code, message } = diskFaultError(directory, fault);
      return { code, message };
    },
  };
}
