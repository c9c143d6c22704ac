import { access, readdir, readFile, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { MediumId } from '../domain/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { type Device, type MachinePaths, readMounts } from './device.ts';
import type { DeviceUnits } from './device-units.ts';
import { filesystemMount, readableFilesystems } from './filesystems.ts';
import type { MediaErrorCode, PluggedMedium } from './media-provider.ts';
import type { MountEntry } from './mountinfo.ts';
import { unitNameOfPath } from './unit-name.ts';

/** What {@link createPluggedDevice} needs. */
export interface PluggedDeviceDeps {
  readonly units: DeviceUnits;
  /** Directory of our mount points: `/run/stickpin/media`. */
  readonly mountDirectory: string;
  readonly paths: MachinePaths;
}

const RELEASE_TIMEOUT_MS = 30_000;

/** A stick (or disc, or card) as a medium. It is read where it is mounted already, else mounted at `<mountDirectory>/<mediumId>`. */
export function createPluggedDevice(mediumId: MediumId, device: Device, deps: PluggedDeviceDeps): PluggedMedium {
  const where = join(deps.mountDirectory, mediumId);
  const unit = unitNameOfPath(where, 'mount');
  let isOurs = false;
  return {
    mediumId,
    label: device.name,
    layout: 'medium',
    mount: async (signal) => {
      const present = await mountPointOf(device, where, deps.paths);
      isOurs = present === undefined || present === where;
      if (present === undefined) await mount(device, unit, where, deps, signal);
      // Between the look at the device and the mount it may have been swapped for another one of the same name.
      if (!(await isSame(device))) throw gone(device);
      return present ?? where;
    },
    isThere: () => isSame(device),
    mountPoints: (mounts) => mountPointsOf(device, mounts),
    release: async () => {
      if (!isOurs) return;
      await deps.units.stopUnit(unit, AbortSignal.timeout(RELEASE_TIMEOUT_MS)).catch(() => undefined);
      await rmdir(where).catch(() => undefined); // what is still mounted stays, systemd unmounts it
    },
  };
}

/** Where the whole filesystem can be read now; ours before others'. */
async function mountPointOf(device: Device, where: string, paths: MachinePaths): Promise<string | undefined> {
  const mountPoints = mountPointsOf(device, await readMounts(paths));
  if (mountPoints.includes(where)) return where;
  for (const mountPoint of [...mountPoints].reverse()) {
    if (await isReadable(mountPoint)) return mountPoint;
  }
  return undefined;
}

function mountPointsOf({ number, node }: Device, mounts: readonly MountEntry[]): readonly string[] {
  return mounts
    .filter(({ root, device, source }) => root === '/' && (device === number || source === node))
    .map(({ mountPoint }) => mountPoint);
}

async function mount(
  device: Device,
  unit: string,
  where: string,
  { units, paths }: PluggedDeviceDeps,
  signal: AbortSignal,
): Promise<void> {
  const filesystem = filesystemMount(device.filesystem);
  if (filesystem === undefined) throw unreadable(device);
  try {
    await units.mount({ unit, description: `Medium ${device.name}`, what: device.node, where, ...filesystem }, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!(await isSame(device))) throw gone(device);
    throw mountFailed(device, where, unit, reasonOf(error), error);
  }
  const now = await mountPointOf(device, where, paths);
  if (now !== where) throw mountFailed(device, where, unit, 'systemd said so, but it is not mounted there');
}

/** The kernel gives each plugging-in a number of its own; the path in /sys alone would be the same for the next stick in the same port. */
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
    await readdir(directory);
    return true;
  } catch {
    return false;
  }
}

function unreadable({ name, filesystem }: Device): AppError<MediaErrorCode> {
  return new AppError({
    code: 'media/filesystem',
    message: `${name} has the filesystem ${filesystem}, which is not read; use one of ${readableFilesystems.join(', ')}`,
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
