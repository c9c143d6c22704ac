import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import type { AppError } from '../../platform/app-error.ts';
import { probeDisk, visibleDiskFault } from '../../platform/files/disk-fault.ts';
import { diskFaultError } from './write-error.ts';

/** Tells whether stickpin's own files can be written. */
export interface DiskWatch {
  /** Call when a write failed. @returns the same error, to be thrown */
  failed(error: AppError): AppError;
  /** Call when a write succeeded. */
  succeeded(): void;
  /** As in `Durability.trouble`. */
  trouble(): Fault | undefined;
}

/**
 * Watches the filesystem of `directory`. A disk that was full or read-only counts as such until a
 * test write succeeds, any other failure until a write does.
 */
export function createDiskWatch(directory: string): DiskWatch {
  let failure: AppError | undefined;
  return {
    failed: (error) => {
      failure = error;
      return error;
    },
    succeeded: () => {
      failure = undefined;
    },
    trouble: () => {
      const fault = failure === undefined ? visibleDiskFault(directory) : probeDisk(directory);
      if (fault === undefined && failure !== undefined && isDiskTrouble(failure)) failure = undefined;
      const error = fault === undefined ? failure : diskFaultError(directory, fault);
      return error && { code: error.code, message: error.message };
    },
  };
}
