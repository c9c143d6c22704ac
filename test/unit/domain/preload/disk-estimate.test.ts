import { describe, expect, it } from 'vitest';
import { type DiskNeed, diskUse, estimateDisk } from '../../../../src/domain/preload/space.ts';
import { layer } from '../../../support/daemon/scenario.ts';

const GIB = 1024 ** 3;
const disk = (totalBytes: number, freeBytes: number) => ({ path: '/var/lib/containers', totalBytes, freeBytes });
const need = (over: Partial<DiskNeed> = {}): DiskNeed => ({
  images: [],
  filesystem: disk(100 * GIB, 100 * GIB),
  layerStorage: 'unpacked',
  staging: undefined,
  minFreePercent: 15,
  parallel: 2,
  ...over,
});
const image = (name: string, ...diskBytes: readonly number[]) =>
  diskBytes.map((bytes, index) => layer(`${name}${index}`, { diskBytes: bytes, sizeBytes: bytes / 2, inodes: 10 }));
const used = (images: DiskNeed['images'], storage: DiskNeed['layerStorage'] = 'unpacked') =>
  diskUse(new Map(images.flat().map((one) => [one.digest, one])).values(), images.length, storage);

describe('estimateDisk', () => {
  const images = [image('a', 100, 200)];
  const needed = used(images).bytes;

  it.each([
    { what: 'fits to the byte', total: 1_000_000, free: needed + 150_000, percent: 15, fits: true, reserved: 150_000 },
    { what: 'lacks one byte', total: 1_000_000, free: needed + 149_999, percent: 15, fits: false, reserved: 150_000 },
    { what: 'no reserve wanted', total: 1_000_000, free: needed, percent: 0, fits: true, reserved: 0 },
    {
      what: 'less free than reserved',
      total: 1_000_000,
      free: 100_000,
      percent: 15,
      fits: false,
      reserved: 100_000,
      kept: 150_000,
    },
    {
      what: 'a reserve of a part of a byte',
      total: 1_000_001,
      free: needed + 150_001,
      percent: 15,
      fits: true,
      reserved: 150_001,
    },
  ])('$what', ({ total, free, percent, fits, reserved, kept = reserved }) => {
    const verdict = estimateDisk(need({ images, filesystem: disk(total, free), minFreePercent: percent }));
    const path = '/var/lib/containers';
    const lacking = needed + Math.ceil((total * percent) / 100) - free;
    expect(verdict).toEqual({
      neededBytes: needed,
      freeBytes: free,
      reservedBytes: reserved,
      path,
      fits,
      shortages: fits ? [] : [{ kind: 'bytes', path, needed, free, reserved: kept, percent, lacking }],
    });
  });

  it('needs no space for images whose layers are all present, also on a full disk', () => {
    const full = { ...disk(1_000, 0), inodes: { total: 100, free: 0 } };
    expect(estimateDisk(need({ images: [[], []], filesystem: full, staging: 'with-images' }))).toMatchObject({
      neededBytes: 0,
      fits: true,
    });
  });

  it('counts a layer that several images share once, and every image', () => {
    const shared = image('base', 100);
    const both = [[...shared, ...image('a', 10)], shared];
    expect(estimateDisk(need({ images: both })).neededBytes).toBe(
      diskUse([...shared, ...image('a', 10)], 2, 'unpacked').bytes,
    );
  });

  it.each(['unpacked', 'compressed', 'both'] as const)(
    'counts the storage of a runtime that keeps layers %s',
    (storage) => {
      expect(estimateDisk(need({ images, layerStorage: storage })).neededBytes).toBe(used(images, storage).bytes);
    },
  );

  it('counts the compressed size of what stickpin keeps a copy of, each layer once', () => {
    const three = [image('a', 100, 200), image('a', 100, 200), image('b', 10, 20)];
    const copied = three.flatMap(([first]) => first ?? []).slice(0, 2);
    expect(estimateDisk(need({ images: three, copied })).neededBytes).toBe(used(three).bytes + 50);
  });

  it('counts attachments that are still to be written, unless no layer is missing', () => {
    const [all] = [used(images).bytes];
    expect(estimateDisk(need({ images, attachedBytes: 7_000 })).neededBytes).toBe(all + 7_000);
    expect(estimateDisk(need({ images: [[]], attachedBytes: 7_000 })).neededBytes).toBe(0);
  });

  it.each(['unpacked', 'compressed'] as const)(
    'counts inodes where their number is fixed, with the same reserve (%s)',
    (storage) => {
      const { inodes } = used(images, storage);
      const within = (free: number) => ({ ...disk(100 * GIB, 100 * GIB), inodes: { total: 1_000, free } });
      const verdict = (free: number) => estimateDisk(need({ images, layerStorage: storage, filesystem: within(free) }));
      expect(verdict(inodes + 150).fits).toBe(true);
      expect(verdict(inodes + 149).shortages).toEqual([
        {
          kind: 'inodes',
          path: '/var/lib/containers',
          needed: inodes,
          free: inodes + 149,
          reserved: 150,
          percent: 15,
          lacking: 1,
        },
      ]);
    },
  );

  describe('counts the largest images that are staged in parallel, shared layers once', () => {
    const base = image('base', 400);
    const four = [[...base, ...image('a', 40)], [...base, ...image('b', 60)], image('c', 100), image('d', 20)];
    // Base and b are 230, c is 50.
    const largest = [
      { parallel: 1, staged: 230 },
      { parallel: 2, staged: 280 },
      { parallel: 9, staged: 310 },
      { parallel: 0, staged: 0 },
    ];

    it.each(largest)('on another filesystem, with $parallel at once', ({ parallel, staged }) => {
      const on = (freeBytes: number) =>
        estimateDisk(need({ images: four, parallel, staging: { path: '/var/tmp', totalBytes: 100, freeBytes } }));
      expect(on(staged + 15).shortages).toEqual([]);
      expect(on(staged + 14).shortages).toEqual(
        staged === 0
          ? []
          : [
              {
                kind: 'staging',
                path: '/var/tmp',
                needed: staged,
                free: staged + 14,
                reserved: 15,
                percent: 15,
                lacking: 1,
              },
            ],
      );
      expect(on(1_000).neededBytes).toBe(used(four).bytes);
    });

    it.each(largest)(
      'on the filesystem of the images, in addition to the stored layers, with $parallel at once',
      ({ parallel, staged }) => {
        const peak = used(four).bytes + staged;
        const on = (freeBytes: number) =>
          estimateDisk(need({ images: four, parallel, staging: 'with-images', filesystem: disk(1_000, freeBytes) }));
        expect(on(peak + 150)).toMatchObject({ neededBytes: peak, fits: true });
        expect(on(peak + 149).shortages).toEqual([
          {
            kind: 'bytes',
            path: '/var/lib/containers',
            needed: peak,
            free: peak + 149,
            reserved: 150,
            percent: 15,
            lacking: 1,
          },
        ]);
      },
    );
  });
});
