import type { StickFilesystem } from '../../domain/model/machine.ts';

/** Nodes don't read it. */
export const IMAGE_LABEL = 'STICKPIN';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

/** All common tools begin a partition at this offset. */
export const PARTITION_OFFSET = MiB;
export const SECTOR_BYTES = 512;

export interface ImageContent {
  readonly folders: number;
  /** Sizes in bytes. */
  readonly files: readonly number[];
}

/** Sizes in bytes. */
export interface ImageLayout {
  /** Whole MiB. */
  readonly imageBytes: number;
  /** The size from {@link PARTITION_OFFSET} to the end. */
  readonly partitionBytes: number;
  /** The cluster of vfat, or the block of ext4. */
  readonly unitBytes: number;
  /** The number of inodes of ext4. */
  readonly inodes: number;
}

/** The smallest with room for 1 % more, at least 16 MiB. */
export function layoutOf(filesystem: StickFilesystem, content: ImageContent): ImageLayout {
  return filesystem === 'ext4' ? ext4Layout(content) : vfatLayout(content);
}

/** Bytes for a volume's files in an image of `imageBytes`, without the tables of the filesystem. */
export function roomInImage(imageBytes: number): number {
  return Math.max(0, Math.floor(imageBytes * 0.96) - 28 * MiB);
}

export function unitOf(filesystem: StickFilesystem, imageBytes: number): number {
  return filesystem === 'ext4' ? EXT4_BLOCK : (CLUSTERS.find(({ upTo }) => imageBytes <= upTo)?.bytes ?? 32 * KiB);
}

/** Cluster sizes of FAT32 for sizes of volumes, as mkfs.vfat(8) and Windows choose them. */
const CLUSTERS = [
  { bytes: 512, upTo: 260 * MiB },
  { bytes: 4 * KiB, upTo: 8 * GiB },
  { bytes: 8 * KiB, upTo: 16 * GiB },
  { bytes: 16 * KiB, upTo: 32 * GiB },
  { bytes: 32 * KiB, upTo: 2 * 1024 * GiB },
];
/** FAT32 has at least 65,525 clusters; the others are for rounding. */
const MIN_CLUSTERS = 66_000;
/** There are two tables with four bytes for each cluster. */
const FAT_BYTES = 8;
/** A long name of a blob takes six entries of 32 bytes. */
const ENTRY_BYTES = 6 * 32;

function vfatLayout({ files, folders }: ImageContent): ImageLayout {
  let tooSmall = 0;
  for (const { bytes, upTo } of CLUSTERS) {
    const clusters =
      files.reduce((sum, size) => sum + Math.ceil(size / bytes), 0) +
      folders +
      Math.ceil((files.length * ENTRY_BYTES) / bytes);
    // Larger clusters have smaller tables: the image must not be of a size that has smaller ones.
    const enough = Math.max(tooSmall, MIN_CLUSTERS * (bytes + FAT_BYTES), withReserve(clusters * (bytes + FAT_BYTES)));
    const layout = sized(enough + MiB, { unitBytes: bytes, inodes: 0 });
    if (layout.imageBytes <= upTo) return layout;
    tooSmall = upTo;
  }
  throw new RangeError('an image with FAT has at most 2 TiB');
}

const EXT4_BLOCK = 4 * KiB;
const INODE_BYTES = 256;

function ext4Layout({ files, folders }: ImageContent): ImageLayout {
  const inodes = files.length + folders + 64;
  const blocks = files.reduce((sum, size) => sum + Math.ceil(size / EXT4_BLOCK), 0) + folders;
  // Entries of folders; then bitmaps and copies of the superblock.
  const data = blocks * EXT4_BLOCK + files.length * 128;
  const tables = inodes * INODE_BYTES + Math.ceil(data * 0.005) + 4 * MiB;
  return sized(withReserve(data + tables), { unitBytes: EXT4_BLOCK, inodes });
}

function withReserve(bytes: number): number {
  return bytes + Math.max(16 * MiB, Math.ceil(bytes / 100));
}

function sized(bytes: number, layout: Pick<ImageLayout, 'unitBytes' | 'inodes'>): ImageLayout {
  const partitionBytes = Math.ceil(bytes / MiB) * MiB;
  return { imageBytes: PARTITION_OFFSET + partitionBytes, partitionBytes, ...layout };
}

const MAX_FAT_ENTRIES = 65_536;

/** Linux and Windows allow 2 MiB. A long name takes an entry for each 13 letters, and one. */
export function isTooManyForFat(names: readonly string[]): boolean {
  const entries = names.reduce((sum, name) => sum + Math.ceil(name.length / 13) + 1, 2);
  return entries > MAX_FAT_ENTRIES;
}

/**
 * An MBR with one partition. MBR is read everywhere, and unlike GPT has no copy at the end.
 *
 * @param id four bytes that name the disk
 */
export function partitionTable(filesystem: StickFilesystem, partitionBytes: number, id: Uint8Array): Buffer {
  const sector = Buffer.alloc(SECTOR_BYTES);
  Buffer.from(id).copy(sector, 440, 0, 4);
  const entry = sector.subarray(446);
  // Cylinders, heads and sectors say nothing; 0xfffffe means that the sector numbers count.
  Buffer.from([0x00, 0xfe, 0xff, 0xff, filesystem === 'vfat' ? 0x0c : 0x83, 0xfe, 0xff, 0xff]).copy(entry);
  entry.writeUInt32LE(PARTITION_OFFSET / SECTOR_BYTES, 8);
  entry.writeUInt32LE(partitionBytes / SECTOR_BYTES, 12);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}
