import { describe, expect, it } from 'vitest';
import { parallelPulls } from '../../../../src/domain/preload/pull-schedule.ts';

describe('parallelPulls', () => {
  it('takes a number as it is', () => {
    expect(parallelPulls(7, 'both')).toBe(7);
    expect(parallelPulls(1, undefined)).toBe(1);
  });

  it.each([
    { runtime: 'containerd', layerStorage: 'both', pulls: 4 },
    { runtime: 'CRI-O', layerStorage: 'unpacked', pulls: 2 },
    { runtime: 'the embedded one', layerStorage: 'compressed', pulls: 2 },
    { runtime: 'one that does not say', layerStorage: undefined, pulls: 2 },
  ] as const)('with auto, $pulls for $runtime', ({ layerStorage, pulls }) => {
    expect(parallelPulls('auto', layerStorage)).toBe(pulls);
  });
});
