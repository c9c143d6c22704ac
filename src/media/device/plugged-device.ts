import { access, opendir, readFile, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesystemMount, filesystemRefusal, type MediumId } from '../../domain/model/medium.ts';
import { filesystemText } from '../../domain/report/reasons/image-reasons.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { DeviceUnits } from '../../ports/media.ts';
import { type MediaErrorCode, makePrivateFolder, openFolderMedium, type PluggedMedium } from '../media-provider.ts';
import { type MountEntry, panicsOnError } from '../mounts.ts';
import { type Device, type MachinePaths, readMounts, unitNameOfPath } from './device.ts';

export interface PluggedDeviceDeps {
  readonly units: DeviceUnits;
  /** `/run/stickpin/media`. */
  readonly mountDirectory: string;
  /** udev's `ID_FS_TYPE` of filesystems that may be mounted. */
  readonly filesystems: readonly string[];
  readonly paths: MachinePaths;
}

const RELEASE_TIMEOUT_MS = 30_000;

/** An existing mount is used; otherwise the device is mounted at `<mountDirectory>/<mediumId>`. */
export function createPluggedDevice(mediumId: MediumId, device: Device, deps: PluggedDeviceDeps): PluggedMedium {
  const where = join(deps.mountDirectory, mediumId);
  const unit = unitNameOfPath(where, 'mount');
  let isOurs = false;
  return {
    mediumId,
    label: device.name,
    isDropFolder: false,
    open: async (signal) => {
      if (device.filesystem === '') throw unformatted(device, deps.filesystems);
      const present = await usableMount(device, unit, where, deps, signal);
      isOurs = present === undefined || present === where;
      if (present === undefined) await mount(device, unit, where, deps, signal);
      // Another device may have got the same name since the check.
      if (!(await isSame(device))) throw gone(device);
      return openFolderMedium(present ?? where, 'medium');
    },
    isThere: () => isSame(device),
    mountPoints: (mounts) => wholeMountsOf(device, mounts).map(({ mountPoint }) => mountPoint),
    release: async () => {
      if (!isOurs) return;
      await deps.units.stopUnit(unit, AbortSignal.timeout(RELEASE_TIMEOUT_MS)).catch(() => undefined);
      await rmdir(where).catch(() => undefined); // a directory that is still mounted stays; systemd unmounts it
    },
  };
}

/**
 * A mount of ours is removed if an earlier version or other settings made it and it would not be
 * made now.
 * @throws AppError `media/in-use` (`reject`) for a mount of others with which a read error may stop
 *   this machine
 */
async function usableMount(
  device: Device,
  unit: string,
  where: string,
  { units, paths, filesystems }: PluggedDeviceDeps,
  signal: AbortSignal,
): Promise<string | undefined> {
  const mounts = wholeMountsOf(device, await readMounts(paths));
  const [any] = mounts;
  if (any === undefined) return undefined;
  // All mounts of a device share the option. The first read may already stop the machine.
  const panics = await panicsOnError(any, device.name, paths.ext4);
  const foreign = mounts.find(({ mountPoint }) => mountPoint !== where);
  if (panics !== false && foreign !== undefined) throw panicking(device, foreign.mountPoint);
  if (!mounts.some(({ mountPoint }) => mountPoint === where)) return firstReadable(mounts);
  if (panics !== true && filesystemRefusal(device.filesystem, filesystems) === undefined) return where;
  await units.stopUnit(unit, signal);
  return undefined;
}

async function firstReadable(mounts: readonly MountEntry[]): Promise<string | undefined> {
  for (const { mountPoint } of [...mounts].reverse()) {
    if (await isReadable(mountPoint)) return mountPoint;
  }
  return undefined;
}

function wholeMountsOf({ number, node }: Device, mounts: readonly MountEntry[]): readonly MountEntry[] {
  return mounts.filter(({ root, device, source }) => root === '/' && (device === number || source === node));
}

async function mount(
  device: Device,
  unit: string,
  where: string,
  { units, mountDirectory, paths, filesystems }: PluggedDeviceDeps,
  signal: AbortSignal,
): Promise<void> {
  const refusal = filesystemRefusal(device.filesystem, filesystems);
  const filesystem = filesystemMount(device.filesystem);
  if (refusal !== undefined || filesystem === undefined)
    throw unreadable(device, refusal === undefined ? 'has an unknown filesystem' : filesystemText(refusal));
  try {
    await makePrivateFolder(mountDirectory);
    await units.mount({ unit, description: `Medium ${device.name}`, what: device.node, where, ...filesystem }, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!(await isSame(device))) throw gone(device);
    throw mountFailed(device, where, unit, reasonOf(error), error);
  }
  const now = wholeMountsOf(device, await readMounts(paths)).find(({ mountPoint }) => mountPoint === where);
  if (now === undefined) throw mountFailed(device, where, unit, 'systemd said so, but it is not mounted there');
  // The kernel keeps the options of an existing mount, which may be invisible to this process.
  if ((await panicsOnError(now, device.name, paths.ext4)) !== true) return;
  await units.stopUnit(unit, signal);
  throw panicking(device, 'another place');
}

/** The next stick in the same port may have the same path in /sys, but not the same number. */
async function isSame({ sysfsPath, diskSeq }: Device): Promise<boolean> {
  try {
    await access(sysfsPath);
  } catch {
    return false;
  }
  if (diskSeq === undefined) return true;
  for (const directory of [sysfsPath, dirname(sysfsPath)]) {
    const now = await readFile(join(directory, 'diskseq'), 'utf8').catch(() => undefined);
    if (now !== undefined) return now.trim() === diskSeq;
  }
  return true;
}

async function isReadable(directory: string): Promise<boolean> {
  try {
    const folder = await opendir(directory);
    await folder.read().finally(() => folder.close());
    return true;
  } catch {
    return false;
  }
}

function unreadable({ name }: Device, why: string): AppError<MediaErrorCode> {
  return new AppError({ code: 'media/filesystem', message: `${name} ${why}`, disposition: 'reject' });
}

function unformatted({ name }: Device, filesystems: readonly string[]): AppError<MediaErrorCode> {
  return new AppError({
    code: 'media/filesystem',
    message: `${name} has no filesystem that stickpin can read. Write it again with 'stickpin bundle write', or format it as ${filesystems.slice(0, 2).join(' or ')} and copy the bundle to it`,
    disposition: 'reject',
  });
}

function panicking({ name }: Device, mountPoint: string): AppError<MediaErrorCode> {
  return new AppError({
    code: 'media/in-use',
    message: `${name} is mounted at ${mountPoint} with errors=panic, so that a damaged block on it would stop this machine. Unmount it there and run 'stickpin rescan', and stickpin mounts it safely`,
    disposition: 'reject',
  });
}

function mountFailed(
  { name, node, filesystem }: Device,
  where: string,
  unit: string,
  why: string,
  cause?: unknown,
): AppError<MediaErrorCode> {
  return new AppError({
    code: 'media/mount',
    message: `${node} (${filesystem}) can't be mounted at ${where}: ${why}. See 'journalctl -u ${unit}', and check ${name} on another computer`,
    disposition: 'retry',
    cause,
  });
}

function gone({ name }: Device): AppError<MediaErrorCode> {
  return new AppError({
    code: 'media/gone',
    message: `${name} was removed before it was mounted; plug it in again`,
    disposition: 'wait',
  });
}
