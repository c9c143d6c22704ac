import { access, opendir, readFile, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { filesystemMount, filesystemRefusal, type MediumId } from '../../domain/model/medium.ts';
import { filesystemText } from '../../domain/report/reasons/image-reasons.ts';
import { type AppError, reasonOf } from '../../platform/app-error.ts';
import type { MountEntry } from '../../platform/files/mountinfo.ts';
import type { DeviceUnits } from '../../ports/media.ts';
import {
  makePrivateFolder,
  mediaError,
  type OpenMedium,
  openFolderMedium,
  type PluggedMedium,
} from '../media-provider.ts';
import { panicsOnError } from '../mounts.ts';
import { type Device, type MachinePaths, readMounts, unitNameOfPath } from './device.ts';

interface PluggedDeviceDeps {
  readonly units: DeviceUnits;
  /** `/run/stickpin/media`. */
  readonly mountDirectory: string;
  /** udev's `ID_FS_TYPE` of filesystems that may be mounted. */
  readonly filesystems: readonly string[];
  readonly paths: MachinePaths;
}

const RELEASE_TIMEOUT_MS = 30_000;

/** An existing mount is used; otherwise the device is mounted at `<mountDirectory>/<mediumId>`. */
export class PluggedDevice implements PluggedMedium {
  readonly label: string;
  readonly isDropFolder = false;
  private readonly where: string;
  private readonly unit: string;
  private isOurs = false;

  constructor(
    readonly mediumId: MediumId,
    private readonly device: Device,
    private readonly deps: PluggedDeviceDeps,
  ) {
    this.label = device.name;
    this.where = join(deps.mountDirectory, mediumId);
    this.unit = unitNameOfPath(this.where, 'mount');
  }

  async open(signal: AbortSignal): Promise<OpenMedium> {
    const { device, where } = this;
    const { filesystem, usage } = device;
    if (filesystem === '' || usage !== 'filesystem') {
      const format = `format it as ${this.deps.filesystems.slice(0, 2).join(' or ')} and copy the bundle to it`;
      const next = `Write it again with 'stickpin bundle write', or ${format}`;
      throw mediaError('media/filesystem', `it ${contentText(filesystem, usage)}. ${next}`);
    }
    const present = await this.usableMount(signal);
    this.isOurs = present === undefined || present === where;
    if (present === undefined) await this.mount(signal);
    // Another device may have got the same name since the check.
    if (!(await isSame(device))) throw gone(device);
    return openFolderMedium(present ?? where, 'medium');
  }

  isThere(): Promise<boolean> {
    return isSame(this.device);
  }

  mountPoints(mounts: readonly MountEntry[]): readonly string[] {
    return wholeMountsOf(this.device, mounts).map(({ mountPoint }) => mountPoint);
  }

  async release(): Promise<void> {
    if (!this.isOurs) return;
    await this.deps.units.stopUnit(this.unit, AbortSignal.timeout(RELEASE_TIMEOUT_MS)).catch(() => undefined);
    await rmdir(this.where).catch(() => undefined); // a directory that is still mounted stays; systemd unmounts it
  }

  /**
   * A mount of ours is removed if an earlier version or other settings made it and it would not be
   * made now.
   *
   * @throws AppError `media/in-use` (`reject`) for a mount of others with which a read error may
   *   stop this machine
   */
  private async usableMount(signal: AbortSignal): Promise<string | undefined> {
    const { device, where } = this;
    const { units, paths, filesystems } = this.deps;
    const mounts = wholeMountsOf(device, await readMounts(paths));
    const [any] = mounts;
    if (any === undefined) return undefined;
    // All mounts of a device share the option. The first read may already stop the machine.
    const panics = await panicsOnError(any, device.name, paths.ext4);
    const foreign = mounts.find(({ mountPoint }) => mountPoint !== where);
    if (panics !== false && foreign !== undefined) throw panicking(device, foreign.mountPoint);
    if (!mounts.some(({ mountPoint }) => mountPoint === where)) return firstReadable(mounts);
    if (panics !== true && filesystemRefusal(device.filesystem, filesystems) === undefined) return where;
    await units.stopUnit(this.unit, signal);
    return undefined;
  }

  private async mount(signal: AbortSignal): Promise<void> {
    const { device, unit, where } = this;
    const { name, node: what } = device;
    const { units, mountDirectory, paths, filesystems } = this.deps;
    const refusal = filesystemRefusal(device.filesystem, filesystems);
    const filesystem = filesystemMount(device.filesystem);
    if (refusal !== undefined || filesystem === undefined) {
      const why = refusal === undefined ? 'has an unknown filesystem' : filesystemText(refusal);
      throw mediaError('media/filesystem', `it ${why}`);
    }
    try {
      await makePrivateFolder(mountDirectory);
      await units.mount({ unit, description: `Medium ${name}`, what, where, ...filesystem }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(await isSame(device))) throw gone(device);
      throw this.mountFailed(reasonOf(error), error);
    }
    const now = wholeMountsOf(device, await readMounts(paths)).find(({ mountPoint }) => mountPoint === where);
    if (now === undefined) throw this.mountFailed('systemd said so, but it is not mounted there');
    // The kernel keeps the options of an existing mount, which may be invisible to this process.
    if ((await panicsOnError(now, name, paths.ext4)) !== true) return;
    await units.stopUnit(unit, signal);
    throw panicking(device, 'another place');
  }

  private mountFailed(why: string, cause?: unknown): AppError {
    const { name, node, filesystem } = this.device;
    const next = `See 'journalctl -u ${this.unit}', and check ${name} on another computer`;
    const message = `${node} (${filesystem}) can't be mounted at ${this.where}: ${why}. ${next}`;
    return mediaError('media/mount', message, cause);
  }
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

/** Reads udev's `ID_FS_TYPE` and `ID_FS_USAGE` (libblkid). */
function contentText(type: string, usage: string): string {
  switch (true) {
    case usage === 'crypto':
      return `is encrypted (${type.replace(/^crypto_/, '')}), so that stickpin can't read it`;
    case type === 'LVM2_member' || type === 'LVM1_member':
      return 'is a part of an LVM volume group, and no filesystem that stickpin can read';
    case usage === 'raid':
      return `is a member of a RAID (${type}), and no filesystem that stickpin can read`;
    case type === 'swap' || type === 'swsuspend':
      return 'is swap space, and no filesystem that stickpin can read';
    case type !== '':
      return `has ${type}, which is no filesystem that stickpin can read`;
    default:
      return 'has no filesystem that stickpin can read';
  }
}

function panicking({ name }: Device, mountPoint: string): AppError {
  const why = `${name} is mounted at ${mountPoint} with errors=panic, so that a damaged block on it would stop this machine`;
  return mediaError(
    'media/in-use',
    `${why}. Unmount it there and run 'stickpin rescan', and stickpin mounts it safely`,
  );
}

function gone({ name }: Device): AppError {
  return mediaError('media/gone', `${name} was removed before it was mounted; plug it in again`);
}
