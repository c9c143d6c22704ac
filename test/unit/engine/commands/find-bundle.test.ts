import { describe, expect, it } from 'vitest';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { bundleCalled, findBundle } from '../../../../src/engine/commands/command-context.ts';

const bundle = (digit: string, retiredAt?: number) =>
  ({
    bundleId: `sha256:${digit.repeat(64)}`,
    payload: { name: 'ocp', version: '4.13.7', sequence: 1 },
    ...(retiredAt !== undefined && { retiredAt }),
  }) as unknown as StoredBundle;
const [gone, live, other] = [bundle('1', 1_000), bundle('2'), bundle('3')];

describe('the bundle of a name', () => {
  it('is the one that is not retired, for a command and for its event', () => {
    expect(findBundle([gone, live], 'ocp@4.13.7')).toBe(live);
    expect(bundleCalled([gone, live], 'ocp@4.13.7')).toBe(live);
    expect(bundleCalled([gone], 'ocp@4.13.7')).toBe(gone);
  });

  it('is none when several or none are meant', () => {
    expect(bundleCalled([live, other], 'ocp@4.13.7')).toBeUndefined();
    expect(bundleCalled([live], 'ocp@4.13.8')).toBeUndefined();
    expect(() => findBundle([live, other], 'ocp@4.13.7')).toThrow(/2 bundles here are called/);
  });

  it('is the one with the digest before all', () => {
    expect(findBundle([gone, live, other], gone.bundleId)).toBe(gone);
    expect(bundleCalled([gone, live, other], other.bundleId)).toBe(other);
  });

  it('is the one with the first 12 digits or more, which STATUS shows', () => {
    expect(findBundle([gone, live, other], other.bundleId.slice(0, 19))).toBe(other);
    expect(findBundle([live, other], `${live.bundleId.slice(0, 19)}…`)).toBe(live);
    expect(bundleCalled([live, other], live.bundleId.slice(0, 18))).toBeUndefined();
    const twin = { ...live, bundleId: `${live.bundleId.slice(0, -1)}0` } as StoredBundle;
    expect(() => findBundle([live, twin], live.bundleId.slice(0, 19))).toThrow(/name the one you mean by its digest/);
  });
});
