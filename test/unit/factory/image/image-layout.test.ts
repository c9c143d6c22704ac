import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { STICK_FILESYSTEMS } from '../../../../src/domain/model/machine.ts';
import {
  isTooManyForFat,
  layoutOf,
  PARTITION_OFFSET,
  partitionTable,
  roomInImage,
  unitOf,
} from '../../../../src/factory/image/image-layout.ts';

const MiB = 1024 ** 2;
const GiB = 1024 * MiB;
const sizes = fc.array(fc.oneof(fc.nat(8192), fc.nat(4 * GiB)), { maxLength: 60 });
const taken = (files: readonly number[], unit: number) =>
  files.reduce((sum, size) => sum + Math.ceil(size / unit) * unit, 0);

describe.each(STICK_FILESYSTEMS)('the layout of an image with %s', (filesystem) => {
  it('has room for all files in whole units, and a reserve', () => {
    fc.assert(
      fc.property(sizes, (files) => {
        const { imageBytes, partitionBytes, unitBytes } = layoutOf(filesystem, { files, folders: 4 });
        expect(imageBytes).toBe(PARTITION_OFFSET + partitionBytes);
        expect(imageBytes % MiB).toBe(0);
        expect(partitionBytes - taken(files, unitBytes)).toBeGreaterThan(16 * MiB);
        expect(unitBytes).toBe(unitOf(filesystem, imageBytes));
      }),
      // Just too large for clusters of 4 KiB, and with their larger tables only.
      { examples: [[[620109825, 3560243201, 483672065, 2263347201, 1558814721, 4097]]] },
    );
  });

  it('of files that fit the room of a volume is no larger than the volume', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 64 }), (files, gibibytes) => {
        const volumeBytes = gibibytes * GiB;
        fc.pre(taken(files, unitOf(filesystem, volumeBytes)) <= roomInImage(volumeBytes));
        expect(layoutOf(filesystem, { files, folders: 4 }).imageBytes).toBeLessThanOrEqual(volumeBytes);
      }),
    );
  });
});

describe('an image with FAT32', () => {
  it('has clusters as sticks of its size have, and never fewer than FAT32 must have', () => {
    const clusters = [0, 100 * MiB, 300 * MiB, 9 * GiB, 20 * GiB, 100 * GiB].map((size) => {
      const { partitionBytes, unitBytes } = layoutOf('vfat', { files: [size], folders: 4 });
      expect(partitionBytes / (unitBytes + 8)).toBeGreaterThan(65_525);
      return unitBytes;
    });
    expect(clusters).toEqual([512, 512, 4096, 8192, 16_384, 32_768]);
  });

  it('holds 10,922 blobs in a folder, and no more', () => {
    const names = (count: number) => Array.from({ length: count }, () => 'a'.repeat(64));
    expect(isTooManyForFat(names(10_922))).toBe(false);
    expect(isTooManyForFat(names(10_923))).toBe(true);
  });
});

it('the partition table has one partition, which fills the image', () => {
  const table = partitionTable('vfat', 40 * MiB, Buffer.from('01020304', 'hex'));
  expect(table).toHaveLength(512);
  expect(table.subarray(440, 444).toString('hex')).toBe('01020304');
  expect(table.subarray(446, 462).toString('hex')).toBe('00feffff0cfeffff0008000000400100');
  expect(table.readUInt16LE(510)).toBe(0xaa55);
});
