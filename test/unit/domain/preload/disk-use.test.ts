import { describe, expect, it } from 'vitest';
import { diskUse } from '../../../../src/domain/preload/space.ts';
import { layer } from '../../../support/daemon/scenario.ts';

const KIB = 1024;
const layers = [
  layer('a', { diskBytes: 1_000_000, sizeBytes: 400_000, inodes: 100 }),
  layer('b', { diskBytes: 2_000_000, sizeBytes: 900_000, inodes: 50 }),
];

describe('diskUse', () => {
  it.each([
    ['unpacked', 3_000_000 + 150 * 640 + (2 * 34 + 3 * 24 + 40) * KIB, 150 + 2 * 8 + 3 * 5 + 13],
    ['both', 4_300_000 + 150 * 576 + (2 * 32 + 3 * 32 + 120) * KIB, 150 + 2 * 4 + 3 * 3 + 5],
    ['compressed', 1_300_000 + (2 * 4 + 3 * 13 + 24) * KIB, 2 + 3 * 3 + 6],
  ] as const)('counts layers that are stored %s, with their metadata', (storage, bytes, inodes) => {
    expect(diskUse(layers, 3, storage)).toEqual({ bytes, inodes });
  });

  it('is zero without images', () => {
    for (const storage of ['unpacked', 'both', 'compressed'] as const) {
      expect(diskUse([], 0, storage)).toEqual({ bytes: 0, inodes: 0 });
    }
  });
});
