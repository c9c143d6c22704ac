import type { Stats } from 'node:fs';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { type AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';

/** A stick that was judged. */
export interface StickDevice {
  /** Path of the block device. */
  readonly device: string;
  /** `major:minor` of the device that was judged. */
  readonly number: string;
}

/** A stick that nothing else can claim, as a mount does. */
export interface ClaimedStick {
  /** Open for reading and writing. */
  readonly target: FileHandle;
  close(): Promise<void>;
}

/**
 * Opens a stick for writing, and claims it.
 *
 * When a descriptor for writing is closed, udev has the kernel read the partition table and tells
 * everybody. The kernel refuses that while the device is claimed. So the claim is that of a
 * descriptor for reading, which is closed first.
 *
 * @throws AppError `bundle/stick` (`reject`) when it can't be opened, is in use or was swapped
 */
export async function claimStick(stick: StickDevice): Promise<ClaimedStick> {
  const claim = await openAs(constants.O_RDONLY | constants.O_EXCL, stick);
  const target = await openAs(constants.O_RDWR, stick).catch(async (error: unknown) => {
    await claim.close();
    throw error;
  });
  return {
    target,
    close: async () => {
      await claim.close();
      await target.close();
    },
  };
}

async function openAs(flags: number, { device, number }: StickDevice): Promise<FileHandle> {
  const opened = await open(device, flags).catch((cause: unknown) => {
    const hints: Readonly<Record<string, string>> = {
      EBUSY: 'another program uses it: unmount its filesystems and close disk tools',
      EACCES: 'only root may write to it: run the command with sudo',
      EPERM: 'only root may write to it: run the command with sudo',
      EROFS: 'it is read-only',
      ENOMEDIUM: 'it has no medium',
    };
    throw stickError(`${device} can't be opened: ${hints[systemCodeOf(cause) ?? ''] ?? reasonOf(cause)}`, cause);
  });
  if (numberOf(await opened.stat()) === number) return opened;
  await opened.close();
  throw stickError(`${device} is another device than a moment ago: look at it again`);
}

/**
 * Whether the stick was pulled out. Its node in /dev goes with it, or is another device's; a reader
 * stays and has no medium.
 */
export async function isGone({ device, number }: StickDevice): Promise<boolean> {
  try {
    const still = await open(device, constants.O_RDONLY);
    try {
      return numberOf(await still.stat()) !== number;
    } finally {
      await still.close();
    }
  } catch (error) {
    return ['ENOENT', 'ENXIO', 'ENODEV', 'ENOMEDIUM'].includes(systemCodeOf(error) ?? '');
  }
}

/** An {@link AppError} `bundle/stick` (`reject`). */
export function stickError(message: string, cause?: unknown): AppError {
  return bundleError('bundle/stick', message, { ...(cause !== undefined && { cause }) });
}

/** `major:minor`, as makedev(3) does it, for the numbers of Linux. */
function numberOf({ rdev }: Stats): string {
  return `${((rdev >> 8) & 0xfff) >>> 0}:${((rdev & 0xff) | ((rdev >> 12) & 0xfff00)) >>> 0}`;
}
