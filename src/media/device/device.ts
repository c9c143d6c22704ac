import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { reasonOf } from '../../platform/app-error.ts';
import { type MountEntry, parseMountinfo } from '../../platform/files/mountinfo.ts';
import { mediaError } from '../media-provider.ts';
import { isInFstab, parseFstab } from '../mounts.ts';
import { hasHolders, partitionsOf, systemDisks, wholeDiskOf } from './system-disks.ts';

export interface Device {
  readonly name: string;
  readonly node: string;
  readonly sysfsPath: string;
  readonly number: string;
  /** The number of the disk, new each time it is plugged in. It is undefined before Linux 5.15. */
  readonly diskSeq: string | undefined;
  /** The value of `ID_FS_TYPE`. It is empty for a stick that must be written first. */
  readonly filesystem: string;
  /** `ID_FS_USAGE`: `filesystem`; `crypto`, `raid` or `other` for what can't be mounted. */
  readonly usage: string;
  readonly filesystemUuid: string;
}

/** `refused`: marked by our rule but must not be used. */
export type DeviceVerdict =
  | { readonly kind: 'medium'; readonly device: Device }
  | { readonly kind: 'refused'; readonly name: string; readonly reason: string }
  | { readonly kind: 'other' };

/** Tests replace them; default: the real paths. */
export interface MachinePaths {
  readonly sysRoot: string;
  readonly mountinfo: string;
  readonly fstab: string;
  readonly swaps: string;
  /** Has `<device>/options` for each mounted ext4, one option per line. */
  readonly ext4: string;
}

export const machinePaths: MachinePaths = {
  sysRoot: '/sys',
  mountinfo: '/proc/self/mountinfo',
  fstab: '/etc/fstab',
  swaps: '/proc/swaps',
  ext4: '/proc/fs/ext4',
};

/** Reads udev, the mounts, fstab(5) and drivers. A device that a person named needs no rule. */
export async function judgeDevice(
  sysfsPath: string,
  query: UdevQuery,
  paths: MachinePaths,
  signal: AbortSignal,
  isNamed = false,
): Promise<DeviceVerdict> {
  const properties = await query(sysfsPath, signal);
  if (properties === undefined) return { kind: 'other' };
  const isMarked = isNamed || properties.STICKPIN_MEDIUM === '1';
  const isUsable = isMarked && isFilesystem(properties);
  const content = isUsable ? properties : await unusableContent(sysfsPath, properties, query, signal);
  const device = content && deviceOf(sysfsPath, properties, content);
  if (content === undefined || device === undefined) return { kind: 'other' };
  const { name } = device;
  const disks = await systemDisks(await readMounts(paths), paths.sysRoot);
  const disk = await wholeDiskOf(sysfsPath);
  if (disks.has(disk)) return { kind: 'refused', name, reason: `the system itself is on ${disk}` };
  const fstab = parseFstab(await readText(paths.fstab));
  if ([properties, content].some((one) => isInFstab(fstab, one))) {
    return { kind: 'refused', name, reason: `${paths.fstab} says what it is for` };
  }
  const swaps = (await readText(paths.swaps)).split('\n').map((line) => line.split(' ')[0]);
  if (swaps.includes(content.DEVNAME)) return { kind: 'refused', name, reason: 'this machine swaps to it' };
  if (await hasHolders(sysfsPath)) return { kind: 'refused', name, reason: 'device-mapper or md uses it' };
  if (properties.DEVTYPE === 'partition' && !isNamed) {
    // A hybrid ISO image has the same filesystem on the disk and on a partition. The kernel mounts
    // only one of them.
    const whole = await query(dirname(sysfsPath), signal);
    if (whole?.STICKPIN_MEDIUM === '1' && isFilesystem(whole)) return { kind: 'other' };
  }
  return { kind: 'medium', device };
}

export async function readMounts(paths: MachinePaths): Promise<readonly MountEntry[]> {
  return parseMountinfo(await readText(paths.mountinfo));
}

function isFilesystem(properties: UdevProperties): boolean {
  return properties.ID_FS_USAGE === 'filesystem';
}

/**
 * What a disk has that our rule marks as one without a filesystem: itself when it is empty, or the
 * first encrypted volume, swap, or member of RAID or LVM on it. Returns undefined when there is a
 * filesystem too, when something uses it, or when udev has not seen all partitions: each has an
 * event of its own.
 */
async function unusableContent(
  sysfsPath: string,
  properties: UdevProperties,
  query: UdevQuery,
  signal: AbortSignal,
): Promise<UdevProperties | undefined> {
  if (properties.STICKPIN_MEDIUM !== 'bare') return undefined;
  let first = properties.ID_FS_USAGE ? properties : undefined;
  for (const partition of await partitionsOf(sysfsPath)) {
    const found = await query(partition, signal);
    if (!found?.USEC_INITIALIZED || isFilesystem(found) || (await hasHolders(partition))) return undefined;
    if (found.ID_FS_USAGE) first ??= found;
  }
  return first ?? properties;
}

function deviceOf(
  sysfsPath: string,
  { DEVNAME: node, MAJOR: major, MINOR: minor, DISKSEQ: diskSeq }: UdevProperties,
  { ID_FS_TYPE: filesystem = '', ID_FS_USAGE: usage = '', ID_FS_UUID: filesystemUuid = '' }: UdevProperties,
): Device | undefined {
  if (node === undefined || major === undefined || minor === undefined) return undefined;
  const number = `${major}:${minor}`;
  return { name: basename(sysfsPath), node, sysfsPath, number, diskSeq, filesystem, usage, filesystemUuid };
}

export async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return ''; // a missing file counts as empty
  }
}

/**
 * The result of `systemd-escape --path` (systemd.unit(5), "String Escaping for Inclusion in Unit
 * Names"): `/run/stickpin/media/7-sdb1` → `run-stickpin-media-7\x2dsdb1.mount`.
 */
export function unitNameOfPath(path: string, suffix: 'mount' | 'device'): string {
  const simplified = path.split('/').filter((part) => part !== '' && part !== '.');
  const escaped =
    simplified.length === 0 ? '-' : simplified.map((part, index) => escapePart(part, index === 0)).join('-');
  return `${escaped}.${suffix}`;
}

function escapePart(part: string, isFirst: boolean): string {
  return [...Buffer.from(part, 'utf8')]
    .map((byte, index) => {
      const character = String.fromCharCode(byte);
      const plain = /[A-Za-z0-9:_]/.test(character) || (character === '.' && !(isFirst && index === 0));
      return plain ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
}

/** `DEVNAME`, `DISKSEQ`, `ID_FS_TYPE`, `STICKPIN_MEDIUM`, … */
export type UdevProperties = Readonly<Record<string, string>>;

/** Reads the device with a path below /sys. Returns undefined when there is no device. */
export type UdevQuery = (sysfsPath: string, signal: AbortSignal) => Promise<UdevProperties | undefined>;

const run = promisify(execFile);

/** Reads /sys, because the sandbox hides device nodes. @throws AppError `media/udev` (`retry`) */
export const queryUdev: UdevQuery = async (sysfsPath, signal) => {
  try {
    const args = ['info', '--query=property', `--path=${sysfsPath}`];
    const { stdout } = await run('udevadm', args, { signal, maxBuffer: 1024 * 1024 });
    return parseUdevProperties(stdout);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Error && 'code' in error && typeof error.code === 'number') return undefined;
    const message = `udevadm can't be run to ask for ${sysfsPath}: ${reasonOf(error)}. Install the package udev`;
    throw mediaError('media/udev', message, error);
  }
};

/** Lines `KEY=VALUE` of `udevadm info --query=property`. */
export function parseUdevProperties(text: string): UdevProperties {
  const pairs = text.split('\n').flatMap((line) => {
    const equals = line.indexOf('=');
    return equals > 0 ? [[line.slice(0, equals), line.slice(equals + 1)] as const] : [];
  });
  return Object.fromEntries(pairs);
}
