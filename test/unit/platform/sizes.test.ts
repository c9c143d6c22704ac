import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatBytes, formatBytesOf, formatCount, formatDuration } from '../../../src/platform/sizes.ts';

describe('formatBytes', () => {
  it.each([
    [0, '0 B'],
    [512, '512 B'],
    [1023, '1023 B'],
    [1024, '1 KiB'],
    [1024 ** 2 - 1, '1 MiB'],
    [84 * 1024 ** 2, '84 MiB'],
    [1024 ** 3 - 1, '1.0 GiB'],
    [14.2 * 1024 ** 3, '14.2 GiB'],
    [1024 ** 4, '1.0 TiB'],
    [5000 * 1024 ** 4, '5000.0 TiB'],
  ])('%d is %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });

  it('never shows 1024 of a unit when there is a larger unit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 49 }), (bytes) => {
        expect(Number.parseFloat(formatBytes(bytes))).toBeLessThan(1024);
      }),
    );
  });
});

describe('formatBytesOf', () => {
  it.each([
    [0, 0, '0 of 0 B'],
    [5.1 * 1024 ** 3, 16 * 1024 ** 3, '5.1 of 16.0 GiB'],
    [12 * 1024 ** 2, 340 * 1024 ** 2, '12 of 340 MiB'],
    [512 * 1024 ** 2, 2 * 1024 ** 3, '0.5 of 2.0 GiB'],
  ])('%d of %d is %s', (done, total, text) => {
    expect(formatBytesOf(done, total)).toBe(text);
  });
});

describe('formatDuration', () => {
  it.each([
    [-5, '0 s'],
    [0, '0 s'],
    [8_400, '8 s'],
    [59_499, '59 s'],
    [60_000, '1 min'],
    [130_000, '2 min 10 s'],
    [134_000, '2 min 10 s'],
    [3_594_000, '59 min 50 s'],
    [3_596_000, '1 h'],
    [3_900_000, '1 h 5 min'],
    [7_170_000, '2 h'],
  ])('%d ms is %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

it.each([
  [0, '0 images'],
  [1, '1 image'],
  [112, '112 images'],
])('counts %i as %s', (count, text) => {
  expect(formatCount(count, 'image')).toBe(text);
});
