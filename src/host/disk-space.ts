import { statfs } from 'node:fs/promises';
import { AppError, reasonOf } from '../platform/app-error.ts';

/** Space on the filesystem that holds a path: statfs(2). */
export interface DiskSpace {
  readonly totalBytes: number;
  /** What an unprivileged process could still write (`f_bavail`). */
  readonly freeBytes: number;
  /** 0 where the filesystem has no fixed number of inodes (btrfs). */
  readonly totalInodes: number;
  readonly freeInodes: number;
}

/** @throws AppError `host/statfs` (`retry`) when the path can't be looked at. */
export async function diskSpaceAt(path: string, signal: AbortSignal): Promise<DiskSpace> {
  signal.throwIfAborted();
  try {
    const { bsize, blocks, bavail, files, ffree } = await statfs(path);
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize, totalInodes: files, freeInodes: ffree };
  } catch (error) {
    throw new AppError({
      code: 'host/statfs',
      message: `The free space of the filesystem at ${path} can't be read: ${reasonOf(error)}`,
      disposition: 'retry',
      cause: error,
    });
  }
}
