import { accessSync, closeSync, constants, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { systemCodeOf } from '../app-error.ts';

/** `full`: no space or inode is free. */
export type DiskFault = 'full' | 'quota' | 'read-only';

const FAULTS: Readonly<Record<string, DiskFault>> = {
  ENOSPC: 'full',
  SQLITE_FULL: 'full',
  EDQUOT: 'quota',
  EROFS: 'read-only',
};

/** Also finds the fault of its cause. Returns undefined for other errors. */
export function diskFaultOf(thrown: unknown): DiskFault | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    const fault = FAULTS[systemCodeOf(error) ?? ''];
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** `PATH can't be written: why. What to do`. */
export function diskFaultMessage(path: string, fault: DiskFault): string {
  switch (fault) {
    case 'full':
      return `${path} can't be written: its filesystem is full (no space or no inodes left); make room on it`;
    case 'quota':
      return `${path} can't be written: the disk quota there is used up; make room or raise the quota`;
    case 'read-only':
      return `${path} can't be written: its filesystem is read-only; look for errors of the disk in dmesg, and remount it writable`;
  }
}

/** About the size of one write of a small database. */
const PROBE_BYTES = 64 * 1024;

export function probeDisk(directory: string): DiskFault | undefined {
  const path = join(directory, `.stickpin-probe-${process.pid}`);
  try {
    const file = openSync(path, 'w', 0o600);
    try {
      // A file that does not fit may be written in part, without an error.
      for (let left = PROBE_BYTES; left > 0; ) left -= writeSync(file, Buffer.alloc(left));
    } finally {
      closeSync(file);
      rmSync(path, { force: true });
    }
    return undefined;
  } catch (error) {
    return diskFaultOf(error);
  }
}

/** The fault visible without a write. Undefined also means that the examination failed. */
export function visibleDiskFault(directory: string): DiskFault | undefined {
  try {
    accessSync(directory, constants.W_OK);
    const { bfree, files, ffree } = statfsSync(directory);
    // Filesystems that allocate inodes on demand report 0 of 0.
    return bfree === 0 || (files > 0 && ffree === 0) ? 'full' : undefined;
  } catch (error) {
    return diskFaultOf(error);
  }
}
