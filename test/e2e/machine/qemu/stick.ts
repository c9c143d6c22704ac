import { mkdir, open, readdir, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { execute } from '../../../support/rootfs/execute.ts';

/**
 * Filesystems that a stick can carry. exfat and udf are made empty, since nothing on the host fills
 * them: see `Machine.fillStick()`.
 */
type StickFilesystem = 'vfat' | 'ext2' | 'ext4' | 'iso9660' | 'squashfs' | 'exfat' | 'udf';

/** How to make a stick. */
export interface StickOptions {
  /** Path of the image to make; its folder is made as well. */
  readonly image: string;
  /** The folder whose contents the stick carries; default: it is empty. */
  readonly folder?: string;
  /** Default vfat. */
  readonly filesystem?: StickFilesystem;
  /** Partition table; default gpt. With `none` the filesystem lies on the bare disk. */
  readonly table?: 'gpt' | 'mbr' | 'none';
  /** Filesystem label, at most 11 characters, upper case; default STICKPIN. squashfs has none. */
  readonly label?: string;
}

/** The image of a USB stick. */
export interface Stick {
  readonly image: string;
  readonly filesystem: StickFilesystem;
  /** Number of the partition with the filesystem; absent when it lies on the bare disk. */
  readonly partition?: 1;
}

const mebibyte = 1024 * 1024;

/** Where the partition begins, and what the backup table of GPT takes at the end. */
const marginMiB = 1;

/** Where the partition begins, in bytes from the start of the stick. */
export const partitionOffsetBytes = marginMiB * mebibyte;

/** sfdisk's short names of partition types, by filesystem. */
const partitionTypes = {
  gpt: { vfat: 'U', exfat: 'U', udf: 'U', iso9660: 'U', squashfs: 'L', ext2: 'L', ext4: 'L' },
  mbr: { vfat: 'c', exfat: '7', udf: '7', iso9660: '83', squashfs: '83', ext2: '83', ext4: '83' },
} as const;

/** Linux filesystem data and Microsoft basic data; sfdisk knows no short name for the second. */
const gptTypes = { U: 'EBD0A0A2-B9E5-4433-87C0-68B6B72699C7', L: '0FC63DAF-8483-4772-8E79-3D69D8477DE4' } as const;

/** Makes the image of a USB stick, without mounting anything. */
export async function makeStick(options: StickOptions): Promise<Stick> {
  const { image, filesystem = 'vfat', table = 'gpt' } = options;
  await mkdir(dirname(image), { recursive: true });
  await rm(image, { force: true });
  if (table === 'none') {
    await makeFilesystem(image, options);
    return { image, filesystem };
  }
  const part = `${image}.part`;
  await rm(part, { force: true });
  await makeFilesystem(part, options);
  const sizeMiB = Math.ceil((await stat(part)).size / mebibyte);
  await createSparse(image, sizeMiB + 2 * marginMiB);
  await partition(image, table, filesystem, sizeMiB);
  await execute([
    'dd',
    'status=none',
    'conv=notrunc,sparse',
    'bs=1M',
    `seek=${marginMiB}`,
    `if=${part}`,
    `of=${image}`,
  ]);
  await rm(part);
  return { image, filesystem, partition: 1 };
}

async function partition(image: string, table: 'gpt' | 'mbr', filesystem: StickFilesystem, sizeMiB: number) {
  const type = table === 'gpt' ? gptTypes[partitionTypes.gpt[filesystem]] : partitionTypes.mbr[filesystem];
  const input = `label: ${table === 'gpt' ? 'gpt' : 'dos'}\nstart=${marginMiB}MiB, size=${sizeMiB}MiB, type=${type}\n`;
  await execute(['sfdisk', '--quiet', image], { input });
}

async function makeFilesystem(path: string, options: StickOptions): Promise<void> {
  const { folder, filesystem = 'vfat', label = 'STICKPIN' } = options;
  if (filesystem === 'iso9660') {
    const source = folder ?? (await emptyFolder(path));
    // xorriso speaks of its progress on stderr; -joliet and -rockridge give long names to every
    // reader.
    await execute(['xorriso', '-as', 'mkisofs', '-quiet', '-r', '-J', '-joliet-long', '-V', label, '-o', path, source]);
    return;
  }
  if (filesystem === 'squashfs') {
    const source = folder ?? (await emptyFolder(path));
    await execute(['mksquashfs', source, path, '-quiet', '-noappend', '-noI', '-noD', '-noF', '-noX', '-no-xattrs']);
    return;
  }
  await createSparse(path, await neededMiB(folder));
  if (filesystem === 'ext4' || filesystem === 'ext2') {
    const content = folder === undefined ? [] : ['-d', folder];
    await execute([`mkfs.${filesystem}`, '-q', '-F', '-m', '0', '-L', label, ...content, path]);
  } else if (filesystem === 'vfat') {
    await execute(['mkfs.vfat', '-F', '32', '-n', label, path]);
    await copyIntoVfat(path, folder);
  } else {
    if (folder !== undefined) throw new Error(`${filesystem} is filled in the guest: use Machine.fillStick()`);
    const maker = filesystem === 'udf' ? ['mkudffs', '--utf8', '--label'] : ['mkfs.exfat', '-L'];
    await execute([...maker, label, path]);
  }
}

async function copyIntoVfat(image: string, folder: string | undefined): Promise<void> {
  const names = folder === undefined ? [] : await readdir(folder);
  if (folder === undefined || names.length === 0) return;
  // -Q gives up at the first error instead of asking; the check of a disk's geometry means nothing
  // for an image.
  const argv = ['mcopy', '-s', '-p', '-m', '-Q', '-i', image, ...names.map((name) => join(folder, name)), '::/'];
  await execute(argv, { env: { ...process.env, MTOOLS_SKIP_CHECK: '1' } });
}

async function emptyFolder(beside: string): Promise<string> {
  const folder = `${beside}.empty`;
  await mkdir(folder, { recursive: true });
  return folder;
}

async function createSparse(path: string, sizeMiB: number): Promise<void> {
  await (await open(path, 'w')).close();
  await truncate(path, sizeMiB * mebibyte);
}

/** FAT32 needs 65,525 clusters, which is 33 MiB; each file wastes half a cluster or a block. */
async function neededMiB(folder: string | undefined): Promise<number> {
  if (folder === undefined) return 40;
  const kibibytes =
    Number.parseInt(await execute(['du', '--summarize', '--apparent-size', '--block-size=4K', folder]), 10) * 4;
  return Math.max(40, Math.ceil((kibibytes / 1024) * 1.15) + 16);
}
