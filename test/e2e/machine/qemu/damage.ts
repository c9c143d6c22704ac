import { type FileHandle, open } from 'node:fs/promises';
import { execute } from '../../../support/rootfs/execute.ts';
import type { Stick } from './stick.ts';

/**
 * What is damaged in a filesystem: always something that a look at the folder `stickpin`, or the
 * mount itself, has to read.
 */
export type Damage =
  | 'ext4 directory'
  | 'ext4 inode'
  | 'ext4 bitmap'
  | 'vfat chain'
  | 'exfat chain'
  | 'iso9660 directory'
  | 'udf entry'
  | 'squashfs directory';

/**
 * Damages a stick that has its filesystem on the bare disk and holds a folder `stickpin`. Same
 * image, same damage: nothing is left to chance.
 */
export async function damageStick(stick: Stick, damage: Damage): Promise<void> {
  const file = await open(stick.image, 'r+');
  try {
    await spoil[damage](file, stick.image);
  } finally {
    await file.close();
  }
}

/** Has an ext4 stick ask the kernel to panic at an error, in both places of its superblock. */
export async function askForPanic(stick: Stick): Promise<void> {
  await execute(['tune2fs', '-e', 'panic', '-E', 'mount_opts=errors=panic', stick.image]);
}

const spoil: Readonly<Record<Damage, (file: FileHandle, image: string) => Promise<void>>> = {
  'ext4 directory': async (file, image) => {
    const block = Number.parseInt(await debugfs(image, 'blocks /stickpin'), 10);
    await fill(file, block * (await ext4BlockBytes(file)), 64);
  },
  'ext4 inode': async (file, image) => {
    const [, block = '', offset = ''] =
      /block (\d+), offset (0x[0-9a-f]+)/.exec(await debugfs(image, 'imap /stickpin')) ?? [];
    // The flags and the block map behind mode, owner, size and times.
    await fill(file, Number(block) * (await ext4BlockBytes(file)) + Number(offset) + 32, 60);
  },
  'ext4 bitmap': async (file) => {
    const blockBytes = await ext4BlockBytes(file);
    const descriptors = (blockBytes === 1024 ? 2 : 1) * blockBytes;
    await fill(file, (await number(file, descriptors)) * blockBytes, blockBytes);
  },
  'vfat chain': async (file) => {
    const head = await read(file, 0, 512);
    const sectorBytes = head.readUInt16LE(11);
    const tables = head.readUInt8(16);
    const tableBytes = head.readUInt32LE(36) * sectorBytes;
    const start = head.readUInt16LE(14) * sectorBytes;
    // All clusters behind the root folder are marked as free, though folders and files lie in them.
    for (let table = 0; table < tables; table += 1) await fill(file, start + table * tableBytes + 3 * 4, 4096, 0);
  },
  'exfat chain': async (file, image) => {
    const entry = (await find(image, Buffer.from('stickpin', 'utf16le'))) - 2 - 32;
    const head = await read(file, 0, 512);
    const sectorBytes = 1 << head.readUInt8(108);
    const clusterBytes = sectorBytes << head.readUInt8(109);
    const cluster = await number(file, entry + 20);
    // The folder is to go on as the allocation table says, where its cluster is free; and no entry
    // says that it ends before.
    await fill(file, entry + 1, 1, 1);
    await fill(file, head.readUInt32LE(80) * sectorBytes + cluster * 4, 4, 0);
    await fill(file, head.readUInt32LE(88) * sectorBytes + (cluster - 2) * clusterBytes, clusterBytes, 5);
  },
  'iso9660 directory': async (file) => {
    // The primary descriptor and the Joliet one; each has a tree of its own.
    for (const sector of [16, 17]) {
      const root = await number(file, sector * 2048 + 156 + 2);
      const rootBytes = await number(file, sector * 2048 + 156 + 10);
      const records = await read(file, root * 2048, rootBytes);
      for (let at = 0; at < rootBytes && records.readUInt8(at) > 0; at += records.readUInt8(at)) {
        const isOther = records.readUInt8(at + 32) > 1 && (records.readUInt8(at + 25) & 2) !== 0;
        if (isOther) await fill(file, records.readUInt32LE(at + 2) * 2048, 2048, 0x7f);
      }
    }
  },
  'udf entry': async (file, image) => {
    const name = await find(image, Buffer.from('\u0008stickpin', 'latin1'));
    // The tag and what follows it, before the name: 38 bytes, and what an implementation adds.
    await fill(file, name - 38, 38);
  },
  'squashfs directory': async (file) => {
    const directories = Number((await read(file, 72, 8)).readBigUInt64LE());
    // Behind the length of the block.
    await fill(file, directories + 2, 64);
  },
};

function debugfs(image: string, command: string): Promise<string> {
  return execute(['debugfs', '-R', command, image]);
}

/** `s_log_block_size` of the superblock. */
async function ext4BlockBytes(file: FileHandle): Promise<number> {
  return 1024 << (await number(file, 1024 + 24));
}

async function number(file: FileHandle, at: number): Promise<number> {
  return (await read(file, at, 4)).readUInt32LE();
}

async function read(file: FileHandle, at: number, sizeBytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(sizeBytes), 0, sizeBytes, at);
  if (bytesRead < sizeBytes) throw new Error(`the image ends before byte ${at + sizeBytes}`);
  return buffer;
}

async function fill(file: FileHandle, at: number, sizeBytes: number, value = 0xff): Promise<void> {
  await file.write(Buffer.alloc(sizeBytes, value), 0, sizeBytes, at);
}

async function find(image: string, wanted: Buffer): Promise<number> {
  const file = await open(image, 'r');
  try {
    const at = (await file.readFile()).indexOf(wanted);
    if (at < 0) throw new Error(`${image} has no folder stickpin`);
    return at;
  } finally {
    await file.close();
  }
}
