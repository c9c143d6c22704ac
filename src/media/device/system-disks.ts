import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { MountEntry } from '../../platform/files/mountinfo.ts';

/** A disk with one of these mount points is not a medium. */
const SYSTEM_MOUNTS = new Set(['/', '/usr', '/etc', '/var', '/boot', '/boot/efi', '/efi', '/sysroot']);

/** Names such as `sda`, resolved through device-mapper and md. `sysRoot` is `/sys`. */
export async function systemDisks(mounts: readonly MountEntry[], sysRoot: string): Promise<ReadonlySet<string>> {
  const disks = new Set<string>();
  for (const mount of mounts) {
    if (!SYSTEM_MOUNTS.has(mount.mountPoint)) continue;
    const device = await blockDeviceOf(mount, sysRoot);
    if (device !== undefined) await collectDisks(device, disks);
  }
  return disks;
}

/** `sdb` for `…/block/sdb/sdb1`. */
export async function wholeDiskOf(sysfsPath: string): Promise<string> {
  return basename((await isPartition(sysfsPath)) ? dirname(sysfsPath) : sysfsPath);
}

/** Paths below /sys. */
export async function partitionsOf(sysfsPath: string): Promise<readonly string[]> {
  const below = (await namesIn(sysfsPath)).map((name) => join(sysfsPath, name));
  const are = await Promise.all(below.map(isPartition));
  return below.filter((_path, index) => are[index]);
}

export async function hasHolders(sysfsPath: string): Promise<boolean> {
  return (await namesIn(join(sysfsPath, 'holders'))).length > 0;
}

/** btrfs and overlays have separate device numbers, so the name of the source is tried too. */
async function blockDeviceOf(mount: MountEntry, sysRoot: string): Promise<string | undefined> {
  const byNumber = await resolved(join(sysRoot, 'dev/block', mount.device));
  if (byNumber !== undefined) return byNumber;
  if (!mount.source.startsWith('/dev/')) return undefined;
  const name = basename(mount.source);
  return (await resolved(join(sysRoot, 'class/block', name))) ?? mapperDevice(name, sysRoot);
}

async function mapperDevice(name: string, sysRoot: string): Promise<string | undefined> {
  const block = join(sysRoot, 'class/block');
  for (const device of await namesIn(block)) {
    if (!device.startsWith('dm-')) continue;
    const mapped = await readFile(join(block, device, 'dm/name'), 'utf8').catch(() => '');
    if (mapped.trim() === name) return resolved(join(block, device));
  }
  return undefined;
}

async function collectDisks(sysfsPath: string, disks: Set<string>): Promise<void> {
  disks.add(await wholeDiskOf(sysfsPath));
  for (const slave of await namesIn(join(sysfsPath, 'slaves'))) {
    const below = await resolved(join(sysfsPath, 'slaves', slave));
    if (below !== undefined) await collectDisks(below, disks);
  }
}

async function isPartition(sysfsPath: string): Promise<boolean> {
  try {
    await stat(join(sysfsPath, 'partition'));
    return true;
  } catch {
    return false;
  }
}

async function resolved(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch {
    return undefined;
  }
}

async function namesIn(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch {
    return [];
  }
}
