import type { Fault } from '../../domain/model/reason.ts';
import type { AppError } from '../../platform/app-error.ts';
import { glanceAtDisk, probeDisk } from '../../platform/files/disk-fault.ts';
import { diskFaultError } from './write-error.ts';

/** Whether the filesystem of our own files takes writes. */
export interface DiskWatch {
  /** A change failed. @returns the same error, to be thrown */
  failed(error: AppError): AppError;
  /** As in `Durability.trouble`. */
  trouble(): Fault | undefined;
}

/**
 * Watches the filesystem of `directory`. What a failed change has told holds until something can be
 * written there again.
 */
export function createDiskWatch(directory: string): DiskWatch {
  let hasFailed = false;
  return {
    failed: (error) => {
      hasFailed = true;
      return error;
    },
    trouble: () => {
      const fault = hasFailed ? probeDisk(directory) : glanceAtDisk(directory);
      hasFailed = hasFailed && fault !== undefined;
      if (fault === undefined) return undefined;
      const { code, message } = diskFaultError(directory, fault);
      return { code, message };
    },
  };
}
