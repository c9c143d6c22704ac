import { describe, expect, it } from 'vitest';
import { type DiskNeed, estimateDisk } from '../../../src/domain/disk-estimate.ts';
import { layer } from '../../support/scenario.ts';

const disk = (totalBytes: number, freeBytes: number) => ({ path: '/var/lib/containers', totalBytes, freeBytes });
const need = (over: Partial<DiskNeed> = {}): DiskNeed => ({
  images: [],
  filesystem: disk(1_000, 450),
  layerStorage: 'unpacked',
  staging: undefined,
  minFreePercent: 15,
  parallel: 2,
  ...over,
});
const image = (name: string, ...diskBytes: readonly number[]) =>
  diskBytes.map((bytes, index) => layer(`${name}${index}`, { diskBytes: bytes, sizeBytes: bytes / 2, inodes: 10 }));

describe('estimateDisk', () => {
  it.each([
    { what: 'fits to the byte', needs: [100, 200], disk: disk(1000, 450), percent: 15, fits: true, reserved: 150 },
    { what: 'lacks one byte', needs: [100, 201], disk: disk(1000, 450), percent: 15, fits: false, reserved: 150 },
    { what: 'no reserve wanted', needs: [450], disk: disk(1000, 450), percent: 0, fits: true, reserved: 0 },
    { what: 'less free than reserved', needs: [1], disk: disk(1000, 100), percent: 15, fits: false, reserved: 100 },
    { what: 'nothing needed on a full disk', needs: [], disk: disk(1000, 0), percent: 15, fits: true, reserved: 0 },
    {
      what: 'a reserve of a part of a byte',
      needs: [0],
      disk: disk(1001, 451),
      percent: 15,
      fits: true,
      reserved: 151,
    },
  ])('$what', ({ needs, disk: filesystem, percent, fits, reserved }) => {
    const verdict = estimateDisk(need({ images: [image('a', ...needs)], filesystem, minFreePercent: percent }));
    const neededBytes = needs.reduce((sum, bytes) => sum + bytes, 0);
    const shortage = {
      kind: 'bytes',
      path: '/var/lib/containers',
      needed: neededBytes,
      free: filesystem.freeBytes,
      reserved,
    };
    expect(verdict).toEqual({
      neededBytes,
      freeBytes: filesystem.freeBytes,
      reservedBytes: reserved,
      path: '/var/lib/containers',
      fits,
      shortages: fits ? [] : [shortage],
    });
  });

  it('counts a layer that several images share once', () => {
    const shared = image('base', 100);
    expect(estimateDisk(need({ images: [[...shared, ...image('a', 10)], shared] })).neededBytes).toBe(110);
  });

  it.each([
    ['unpacked', 300],
    ['compressed', 150],
    ['both', 450],
  ] as const)('counts what a runtime keeps that keeps it %s', (layerStorage, neededBytes) => {
    expect(estimateDisk(need({ images: [image('a', 100, 200)], layerStorage })).neededBytes).toBe(neededBytes);
  });

  it('counts the compressed size of what stickpin keeps a copy of, each layer once', () => {
    const images = [image('a', 100, 200), image('a', 100, 200), image('b', 10, 20)];
    const copied = new Set([images[0]?.[0]?.digest].filter((digest) => digest !== undefined));
    expect(estimateDisk(need({ images, copied })).neededBytes).toBe(300 + 30 + 50);
  });

  it('counts inodes, where their number is fixed, less the same reserve', () => {
    const images = [image('a', 1, 1)];
    const within = (free: number) => ({ ...disk(1_000, 900), inodes: { total: 100, free } });
    expect(estimateDisk(need({ images, filesystem: within(35) })).fits).toBe(true);
    expect(estimateDisk(need({ images, filesystem: within(34) })).shortages).toEqual([
      { kind: 'inodes', path: '/var/lib/containers', needed: 20, free: 34, reserved: 15 },
    ]);
    // A blob that is kept as it is is one file.
    expect(estimateDisk(need({ images, filesystem: within(17), layerStorage: 'compressed' })).fits).toBe(true);
  });

  it('counts the largest images that are staged together, shared layers once, when that is on another filesystem', () => {
    const base = image('base', 400);
    const images = [[...base, ...image('a', 40)], [...base, ...image('b', 60)], image('c', 100), image('d', 20)];
    const staged = (freeBytes: number, parallel: number) =>
      estimateDisk(
        need({
          images,
          parallel,
          filesystem: disk(10_000, 9_000),
          staging: { path: '/var/tmp', totalBytes: 100, freeBytes },
        }),
      ).shortages;
    // 230 (base and b), then 50 (c); 15 of 100 stay free.
    expect(staged(295, 2)).toEqual([]);
    expect(staged(294, 2)).toEqual([{ kind: 'staging', path: '/var/tmp', needed: 280, free: 294, reserved: 15 }]);
    expect(staged(245, 1)).toEqual([]);
    expect(staged(244, 1)).toHaveLength(1);
    expect(staged(325, 9)).toEqual([]);
    expect(staged(324, 9)).toHaveLength(1);
  });
});
