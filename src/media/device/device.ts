import { readFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { isInFstab, parseFstab } from '../mount/fstab.ts';
import { type MountEntry, parseMountinfo } from '../mount/mountinfo.ts';
import { hasHolders, systemDisks, wholeDiskOf } from './system-disks.ts';
import type { UdevProperties, UdevQuery } from './udev.ts';

/** A block device with a filesystem that may be taken for a medium. */
export interface Device {
  /** Kernel name: `sdb1`. */
  readonly name: string;
  /** `/dev/sdb1`. */
  readonly node: string;
  readonly sysfsPath: string;
  /** `major:minor`. */
  readonly number: string;
  /**
   * The kernel's count of disks seen since boot, which tells one plugging-in from the next;
   * undefined before Linux 5.15.
   */
  readonly diskSeq: string | undefined;
  readonly filesystem: string;
  readonly filesystemUuid: string;
}

/**
 * Whether a device is a medium; `refused` is one that our rule marked and that must be left alone,
 * and says why.
 */
export type DeviceVerdict =
  | { readonly kind: 'medium'; readonly device: Device }
  | { readonly kind: 'refused'; readonly name: string; readonly reason: string }
  | { readonly kind: 'other' };

/** Where the machine tells about its disks. Defaults are the real places. */
export interface MachinePaths {
  readonly sysRoot: string;
  readonly mountinfo: string;
  readonly fstab: string;
  /**
   * Folder with a file `<device>/options` for each ext4 that is mounted, all its options a line
   * each.
   */
  readonly ext4: string;
}

/** The real places. */
export const machinePaths: MachinePaths = {
  sysRoot: '/sys',
  mountinfo: '/proc/self/mountinfo',
  fstab: '/etc/fstab',
  ext4: '/proc/fs/ext4',
};

/**
 * Judges the device at a path below /sys by udev's properties, the mounts, fstab(5) and what lies
 * on top of it.
 *
 * @param isNamed a person named it, so that our rule need not have marked it; everything else is
 *   judged all the same
 */
export async function judgeDevice(
  sysfsPath: string,
  query: UdevQuery,
  paths: MachinePaths,
  signal: AbortSignal,
  isNamed = false,
): Promise<DeviceVerdict> {
  const properties = await query(sysfsPath, signal);
  const isMarked = isNamed || properties?.STICKPIN_MEDIUM === '1';
  if (properties === undefined || !isMarked || !isFilesystem(properties)) return { kind: 'other' };
  const device = deviceOf(sysfsPath, properties);
  if (device === undefined) return { kind: 'other' };
  const { name } = device;
  const disks = await systemDisks(await readMounts(paths), paths.sysRoot);
  const disk = await wholeDiskOf(sysfsPath);
  if (disks.has(disk)) return { kind: 'refused', name, reason: `the system itself is on ${disk}` };
  if (isInFstab(parseFstab(await readText(paths.fstab)), properties)) {
    return { kind: 'refused', name, reason: `${paths.fstab} says what it is for` };
  }
  if (await hasHolders(sysfsPath)) return { kind: 'refused', name, reason: 'device-mapper or md uses it' };
  if (properties.DEVTYPE === 'partition' && !isNamed) {
    // A hybrid ISO image shows the same filesystem on the disk and on a partition; the kernel
    // mounts only one of them.
    const whole = await query(dirname(sysfsPath), signal);
    if (whole?.STICKPIN_MEDIUM === '1' && isFilesystem(whole)) return { kind: 'other' };
  }
  return { kind: 'medium', device };
}

/** The mounts of this process as they are now. */
export async function readMounts(paths: MachinePaths): Promise<readonly MountEntry[]> {
  return parseMountinfo(await readText(paths.mountinfo));
}

function isFilesystem(properties: UdevProperties): boolean {
  return properties.ID_FS_USAGE === 'filesystem';
}

function deviceOf(sysfsPath: string, properties: UdevProperties): Device | undefined {
  const { DEVNAME: node, MAJOR: major, MINOR: minor, ID_FS_TYPE: filesystem } = properties;
  if (node === undefined || major === undefined || minor === undefined || filesystem === undefined) return undefined;
  return {
    name: basename(sysfsPath),
    node,
    sysfsPath,
    number: `${major}:${minor}`,
    diskSeq: properties.DISKSEQ,
    filesystem,
    filesystemUuid: properties.ID_FS_UUID ?? '',
  };
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return ''; // no fstab is an empty one
  }
}
