import { describe, expect, it } from 'vitest';
import { type AdoptionContext, refuseAdoption, sequenceFloor } from '../../../src/domain/adoption.ts';
import { type BundleSpec, NOON, stored, verified } from '../../support/scenario.ts';

const context = (over: Partial<AdoptionContext> = {}): AdoptionContext => ({
  bundles: [],
  arch: 'amd64',
  now: NOON,
  clockSynchronised: true,
  ...over,
});
const activated = (spec: BundleSpec) => stored(verified(spec), { activatedAt: NOON });
const code = (spec: BundleSpec, over: Partial<AdoptionContext> = {}) =>
  refuseAdoption(verified(spec), context(over))?.code;

describe('refuseAdoption, after the bundle format', () => {
  it('payload: a bundle that nothing speaks against is taken', () => {
    expect(code({})).toBeUndefined();
  });

  it('arch: must match the node', () => {
    expect(refuseAdoption(verified({ arch: 'arm64' }), context())).toEqual({
      code: 'bundle/arch',
      message: 'ocp@4.13.7 is made for arm64, this node is amd64; bring the bundle made for amd64',
    });
  });

  it('sequence: below the floor is refused; the floor is what was activated of that stream', () => {
    const bundles = [activated({ sequence: 8, version: '4.13.8' }), activated({ name: 'tools', sequence: 90 })];
    expect(sequenceFloor(bundles, 'ocp')).toBe(8);
    expect(sequenceFloor(bundles, 'other')).toBe(0);
    expect(code({ sequence: 7 }, { bundles })).toBe('bundle/sequence');
    expect(code({ sequence: 9 }, { bundles })).toBeUndefined();
  });

  it('sequence: a bundle that is only adopted raises no floor, so that a barrier release can be taken first', () => {
    expect(code({ sequence: 7 }, { bundles: [stored(verified({ sequence: 8, version: '4.13.8' }))] })).toBeUndefined();
  });

  it('sequence: the same sequence with another digest is refused and both are named', () => {
    const twin = stored(verified({ sequence: 7, version: '4.13.7-rebuilt' }));
    const reason = refuseAdoption(verified({ sequence: 7 }), context({ bundles: [twin] }));
    expect(reason?.code).toBe('bundle/sequence');
    expect(reason?.message).toMatch(/ocp@4\.13\.7 .*same sequence 7 as ocp@4\.13\.7-rebuilt/);
    expect(code({ sequence: 7 }, { bundles: [stored(verified({ name: 'tools', sequence: 7 }))] })).toBeUndefined();
  });

  it('expires: an expired bundle is refused, to the millisecond', () => {
    const at = (ms: number) => new Date(ms).toISOString();
    expect(code({ expires: at(NOON) })).toBe('bundle/expired');
    expect(code({ expires: at(NOON + 1) })).toBeUndefined();
  });

  it('expires: the clock never runs behind the newest created adopted', () => {
    const bundles = [stored(verified({ sequence: 3, version: '4.13.3', created: '2026-06-01T00:00:00Z' }))];
    expect(code({ expires: '2026-05-01T00:00:00Z' }, { bundles })).toBe('bundle/expired');
    expect(code({ expires: '2026-07-01T00:00:00Z' }, { bundles })).toBeUndefined();
  });

  it('created: more than 24 h ahead of a synchronised clock is refused, of another clock not', () => {
    const dayAhead = (extraMs: number) => new Date(NOON + 86_400_000 + extraMs).toISOString();
    expect(code({ created: dayAhead(0) })).toBeUndefined();
    expect(code({ created: dayAhead(1) })).toBe('bundle/from-the-future');
    expect(code({ created: dayAhead(1) }, { clockSynchronised: false })).toBeUndefined();
  });
});
