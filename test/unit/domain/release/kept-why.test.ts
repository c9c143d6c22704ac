import { describe, expect, it } from 'vitest';
import { whyKept } from '../../../../src/domain/release/retention.ts';
import { keptText } from '../../../../src/domain/report/texts/release-text.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { NOON, POLICY, stored, verified } from '../../../support/daemon/scenario.ts';

const release = (sequence: number, marks: Partial<StoredBundle>, base?: StoredBundle): StoredBundle =>
  stored(
    verified({
      sequence,
      version: `4.13.${sequence}`,
      images: { [`etcd-${sequence}`]: [`layer-${sequence}`] },
      ...(base !== undefined && { update: { base: base.bundleId } }),
    }),
    marks,
  );
const at = (hour: number) => ({ readyAt: NOON + hour, activatedAt: NOON + hour });
const done = (hour: number) => ({ ...at(hour), activeAt: NOON + hour, provenAt: NOON + hour });

function texts(
  bundles: readonly StoredBundle[],
  over: Partial<typeof POLICY.lifecycle> = {},
  broken: readonly StoredBundle[] = [],
) {
  const whole = new Set(bundles.filter((bundle) => !broken.includes(bundle)).map(({ bundleId }) => bundleId));
  const kept = whyKept(bundles, whole, { ...POLICY.lifecycle, ...over });
  return bundles.map((bundle) => {
    const why = kept.get(bundle.bundleId);
    return why && keptText(bundle, why);
  });
}

describe('why a release is kept', () => {
  it('gives no reason for the current one, one that was never activated and a retired one', () => {
    const gone = release(1, { ...done(1), retiredAt: NOON + 9 });
    expect(texts([gone, release(2, done(2)), release(3, { readyAt: NOON })])).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('names the last known good one and fallbacks', () => {
    expect(texts([release(1, done(1)), release(2, done(2)), release(3, at(3))])).toEqual([
      'kept as a fallback (lifecycle.keep = 2), until newer releases are proven',
      'kept as the last known good release, until ocp 4.13.3 is proven',
      undefined,
    ]);
  });

  it('names one that was never proven, and one that was rolled back', () => {
    expect(texts([release(1, at(1)), release(2, at(2))])).toEqual([
      "kept, since it was never proven, until ocp 4.13.2 is proven and has a higher sequence; 'stickpin unpin ocp@4.13.1' gives it up",
      undefined,
    ]);
    const [, back] = texts([release(1, done(5)), release(2, { ...at(2), rolledBackAt: NOON + 4 })]);
    expect(back).toMatch(/^kept, since it was rolled back, until ocp 4\.13\.1 is proven and has a higher sequence/);
  });

  it('names protection, a request, a delta, and containers as the only reason', () => {
    const base = release(1, done(1));
    const more = [release(2, done(2)), release(3, done(3))];
    expect(texts([base, ...more], { protect: ['ocp@4.13.1'] })[0]).toBe('kept for good by lifecycle.protect');
    const first = { ...base, payload: { ...base.payload, keep: 'life' as const } };
    expect(texts([first, ...more])[0]).toBe('kept for good, as its bundle says');
    expect(texts([{ ...base, activationRequestedAt: NOON + 9 }, ...more])[0]).toBe(
      'kept since its activation was asked for',
    );
    expect(texts([base, ...more, release(4, {}, base)])[0]).toBe('kept until the delta that builds on it is complete');
    expect(texts([base, ...more])[0]).toBe('kept only while containers run from it');
    expect(texts([base, ...more], {}, more.slice(1))[0]).toBe(
      'kept until ocp 4.13.3 is whole: all its images present, pinned and checked',
    );
  });
});
