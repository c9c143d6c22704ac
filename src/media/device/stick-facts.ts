import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { StickFacts, StickPart } from '../../domain/model/machine.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { isInFstab, parseFstab } from '../mounts.ts';
import { type MachinePaths, readMounts, readText, type UdevProperties, type UdevQuery } from './device.ts';
import { hasHolders, systemDisks, wholeDiskOf } from './system-disks.ts';

export interface StickPaths extends MachinePaths {
  readonly swaps: string;
}

/** The kernel counts sizes of disks in these, whatever the size of their sectors. */
const SECTOR_BYTES = 512;

/** Takes a path below /dev or a link to it. @throws AppError `bundle/stick` (`reject`) */
export async function readStickFacts(
  path: string,
  query: UdevQuery,
  paths: StickPaths,
  signal: AbortSignal,
): Promise<StickFacts> {
  const number = await numberOf(path);
  return factsOf(number, query, paths, signal).catch((cause: unknown) => {
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    throw stickError(`${path} can't be looked at: ${reasonOf(cause)}; is it still plugged in?`, cause);
  });
}

/** {@link readStickFacts} by `major:minor`. @throws unchanged system errors of sysfs */
export async function factsOf(
  number: string,
  query: UdevQuery,
  paths: StickPaths,
  signal: AbortSignal,
): Promise<StickFacts> {
  const sysfs = await realpath(join(paths.sysRoot, 'dev/block', number));
  const disk = await wholeDiskOf(sysfs);
  const isPartition = disk !== basename(sysfs);
  const whole = isPartition ? dirname(sysfs) : sysfs;
  const parts = [whole, ...(await partitionsOf(whole))];
  const properties = await Promise.all(parts.map((part) => propertiesOf(part, query, signal)));
  const mounts = await readMounts(paths);
  const fstab = parseFstab(await readText(paths.fstab));
  const swaps = (await readText(paths.swaps)).split('\n').map((line) => line.split(/\s/)[0] ?? '');
  const uses: { name: string; what: string }[] = [];
  const held: string[] = [];
  for (const part of parts) {
    const name = basename(part);
    const deviceNumber = await readText(join(part, 'dev'));
    const mount = mounts.find(({ device, source }) => device === deviceNumber.trim() || source === `/dev/${name}`);
    if (mount !== undefined) uses.push({ name, what: `mounted at ${mount.mountPoint}` });
    if (swaps.includes(`/dev/${name}`)) uses.push({ name, what: 'used as swap' });
    if (await hasHolders(part)) held.push(name);
  }
  const [ofDisk] = properties;
  return {
    node: `/dev/${basename(sysfs)}`,
    number,
    kind: isPartition ? 'partition' : 'disk',
    disk,
    sizeBytes: await sizeOf(whole),
    model: await modelOf(whole),
    serial: oneLine(ofDisk?.ID_SERIAL_SHORT ?? ''),
    isRemovable: (await flagOf(whole, 'removable')) || /\/usb\d+\//.test(`${whole}/`) || (await isSdCard(whole)),
    isReadOnly: await flagOf(whole, 'ro'),
    isSystem: (await systemDisks(mounts, paths.sysRoot)).has(disk),
    isInFstab: properties.some((one) => one !== undefined && isInFstab(fstab, one)),
    uses,
    held,
    parts: (await Promise.all(parts.map((part, at) => partOf(part, properties[at])))).filter(
      ({ name, filesystem }) => name !== disk || filesystem !== '',
    ),
  };
}

/** A machine without udev, for example a container, knows only the name of a device. */
async function propertiesOf(part: string, query: UdevQuery, signal: AbortSignal): Promise<UdevProperties | undefined> {
  return query(part, signal).catch((error: unknown) => {
    if (!(error instanceof AppError) || error.code !== 'media/udev') throw error;
    return { DEVNAME: `/dev/${basename(part)}` };
  });
}

async function numberOf(path: string): Promise<string> {
  const found = await stat(path).catch((cause: unknown) => {
    throw stickError(`${path} can't be looked at: ${reasonOf(cause)}`, cause);
  });
  if (!found.isBlockDevice()) {
    throw stickError(`${path} is not a block device: name the device of the stick, such as /dev/sdb`);
  }
  const { rdev } = found;
  return `${((rdev >> 8) & 0xfff) >>> 0}:${((rdev & 0xff) | ((rdev >> 12) & 0xfff00)) >>> 0}`;
}

async function partitionsOf(whole: string): Promise<string[]> {
  const names = await readdir(whole).catch(() => []);
  const partitions = names.filter((name) => name.startsWith(basename(whole))).sort();
  return partitions.map((name) => join(whole, name));
}

async function partOf(path: string, properties: UdevProperties | undefined): Promise<StickPart> {
  return {
    name: basename(path),
    sizeBytes: await sizeOf(path),
    filesystem: oneLine(properties?.ID_FS_TYPE ?? ''),
    label: oneLine(properties?.ID_FS_LABEL ?? ''),
  };
}

async function modelOf(whole: string): Promise<string> {
  const names = await Promise.all(['vendor', 'model'].map((name) => readText(join(whole, 'device', name))));
  return oneLine(
    names
      .map((name) => name.trim())
      .join(' ')
      .trim(),
  );
}

async function sizeOf(path: string): Promise<number> {
  return Number(await readText(join(path, 'size'))) * SECTOR_BYTES;
}

async function flagOf(path: string, name: string): Promise<boolean> {
  return (await readText(join(path, name))).trim() === '1';
}

/** The kernel does not call a built-in reader removable. eMMC has the type MMC. */
async function isSdCard(whole: string): Promise<boolean> {
  return basename(whole).startsWith('mmcblk') && (await readText(join(whole, 'device', 'type'))).trim() === 'SD';
}

function stickError(message: string, cause?: unknown): AppError {
  return new AppError({ code: 'bundle/stick', message, disposition: 'reject', cause });
}
