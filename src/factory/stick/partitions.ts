import type { FileHandle } from 'node:fs/promises';

export interface StickPartition {
  /** `partition 1`, or `the disk` without a partition table. */
  readonly name: string;
  /** The offset in bytes. */
  readonly offset: number;
  /** `vfat`, `ext4`, `exfat` …; as udev names them. */
  readonly filesystem: string;
  /** Bytes of a cluster of vfat; 0 for others. */
  readonly unitBytes: number;
}

const SECTOR_BYTES = 512;
/** UEFI, 5.3: entries of a GUID partition table, as all tools make it. */
const MAX_GUID_ENTRIES = 128;
const ENTRY_BYTES = 128;
/** Up to the descriptor of an ISO 9660. */
const HEAD_BYTES = 36 * 1024;

/** Partitions with a known filesystem, at most 128. @throws system errors */
export async function stickPartitions(disk: FileHandle): Promise<readonly StickPartition[]> {
  const whole = await partitionAt(disk, 0, 'the disk');
  if (whole !== undefined) return [whole];
  const found: StickPartition[] = [];
  for (const [at, offset] of (await offsetsOf(disk)).entries()) {
    const partition = offset === 0 ? undefined : await partitionAt(disk, offset, `partition ${at + 1}`);
    if (partition !== undefined) found.push(partition);
  }
  return found;
}

/** Offsets by the number of the partition, beginning with 1; 0 where there is none. */
async function offsetsOf(disk: FileHandle): Promise<readonly number[]> {
  const table = await bytesAt(disk, 0, SECTOR_BYTES);
  if (table.readUInt16LE(510) !== 0xaa55) return [];
  const entries = [0, 1, 2, 3].map((at) => table.subarray(446 + 16 * at, 446 + 16 * at + 16));
  if (entries.some((entry) => entry.readUInt8(4) === 0xee)) return guidOffsetsOf(disk);
  return entries.map((entry) => (entry.readUInt8(4) === 0 ? 0 : entry.readUInt32LE(8) * SECTOR_BYTES));
}

async function guidOffsetsOf(disk: FileHandle): Promise<readonly number[]> {
  const header = await bytesAt(disk, SECTOR_BYTES, SECTOR_BYTES);
  if (header.toString('latin1', 0, 8) !== 'EFI PART' || header.readUInt32LE(84) !== ENTRY_BYTES) return [];
  const count = Math.min(header.readUInt32LE(80), MAX_GUID_ENTRIES);
  const first = header.readBigUInt64LE(72);
  if (first > 2n ** 32n) return [];
  const table = await bytesAt(disk, Number(first) * SECTOR_BYTES, count * ENTRY_BYTES);
  return Array.from({ length: count }, (_, at) => {
    const sector = table.readBigUInt64LE(at * ENTRY_BYTES + 32);
    return sector > 2n ** 40n ? 0 : Number(sector) * SECTOR_BYTES;
  });
}

async function partitionAt(disk: FileHandle, offset: number, name: string): Promise<StickPartition | undefined> {
  const head = await bytesAt(disk, offset, HEAD_BYTES);
  const filesystem = filesystemOf(head);
  if (filesystem === undefined) return undefined;
  const unitBytes = filesystem === 'vfat' ? head.readUInt16LE(11) * head.readUInt8(13) : 0;
  return { name, offset, filesystem, unitBytes };
}

/** Finds signatures as blkid(8) does. */
function filesystemOf(head: Buffer): string | undefined {
  const textAt = (from: number, length: number) => head.toString('latin1', from, from + length);
  if (textAt(32_769, 5) === 'CD001') return 'iso9660';
  if (textAt(3, 8) === 'EXFAT   ') return 'exfat';
  if (textAt(3, 8) === 'NTFS    ') return 'ntfs';
  if (textAt(0, 4) === 'hsqs') return 'squashfs';
  if (textAt(0, 4) === 'XFSB') return 'xfs';
  if (head.readUInt16LE(1080) === 0xef53) return 'ext4';
  const isFat = textAt(82, 5) === 'FAT32' || /^FAT1[26]/.test(textAt(54, 5));
  return isFat && head.readUInt16LE(510) === 0xaa55 ? 'vfat' : undefined;
}

/** Bytes after the end of the disk are zeros. */
async function bytesAt(disk: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  await disk.read(bytes, 0, length, position);
  return bytes;
}
