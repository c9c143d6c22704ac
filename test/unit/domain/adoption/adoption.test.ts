import { describe, expect, it } from 'vitest';
import { type AdoptionContext, refuseAdoption } from '../../../../src/domain/adoption/adoption.ts';
import { KnownBundles } from '../../../../src/domain/adoption/floors.ts';
import { reasonText } from '../../../../src/domain/report/reasons/reason-text.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  type BundleSpec,
  found,
  judge,
  keyIdOf,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

type Over = Partial<AdoptionContext> & { readonly bundles?: readonly StoredBundle[] };
const context = ({ bundles = [], ...over }: Over = {}): AdoptionContext => ({
  known: new KnownBundles(bundles),
  arch: 'amd64',
  now: NOON,
  clockSynchronised: true,
  ...over,
});
const activated = (spec: BundleSpec) => stored(verified(spec), { activatedAt: NOON });
const code = (spec: BundleSpec, over: Over = {}) => refuseAdoption(verified(spec), context(over))?.code;

describe('refuseAdoption, after the bundle format', () => {
  it('payload: adopts a bundle without a reason against it', () => {
    expect(code({})).toBeUndefined();
  });

  it.each<[when: string, known: readonly BundleSpec[], spec: BundleSpec, is: string | undefined]>([
    ['nothing is known', [], { version: '2.6.2-rev1' }, undefined],
    ['all fit both', [{ version: '2.6.1' }], { version: '2.6.2-rev1' }, undefined],
    ['it is of the same', [{ version: '2.6.1-rev1' }], { version: '2.6.2' }, undefined],
    ['the stream has tags', [{ version: '2.6.1-rev1' }], { version: '2.6.2+x' }, 'bundle/version'],
    ['the stream has SemVer', [{ version: '2.6.1+x' }], { version: '2.6.2-rev1' }, 'bundle/version'],
    [
      'it names another one',
      [{ version: '2.6.1', versionScheme: 'semver' }],
      { version: '2.6.2', versionScheme: 'three-tag' },
      'bundle/version',
    ],
    ['another stream has it', [{ name: 'x', version: '1-rev1' }], { version: '1.0.0+x' }, undefined],
    ['a notice is named so', [{ version: '1-rev1', images: {} }], { version: '1.0.0+x' }, undefined],
  ])('version: fits the scheme of its stream; %s', (_when, known, spec, is) => {
    const bundles = known.map((one, index) => stored(verified({ sequence: index + 1, ...one })));
    expect(code({ sequence: 9, ...spec }, { bundles })).toBe(is);
  });

  it('version: the reason names the form that is wanted', () => {
    const bundles = [stored(verified({ version: '2.6.1-rev1', sequence: 1 }))];
    const reason = refuseAdoption(verified({ version: '1.0.0+x' }), context({ bundles }));
    expect(reason && reasonText(reason)).toMatch(
      /^ocp 1\.0\.0\+x does not fit the versions of its stream\. .*<app>\[-rev<N>/,
    );
  });

  it('sequence: below the floor only where downgrades are allowed', () => {
    const bundles = [activated({ sequence: 9, version: '4.13.9' })];
    expect(code({ sequence: 7 }, { bundles })).toBe('bundle/sequence');
    expect(code({ sequence: 7 }, { bundles, allowDowngrade: true })).toBeUndefined();
  });

  it('arch: must match the node', () => {
    expect(refuseAdoption(verified({ arch: 'arm64' }), context())).toEqual({
      code: 'bundle/arch',
      data: { bundle: { name: 'ocp', version: '4.13.7' }, bundleArch: 'arm64', nodeArch: 'amd64' },
    });
  });

  it('sequence: below the floor is refused; the floor is what was activated of that stream', () => {
    const bundles = [activated({ sequence: 8, version: '4.13.8' }), activated({ name: 'tools', sequence: 90 })];
    expect(new KnownBundles(bundles).stream('ocp').floor).toBe(8);
    expect(new KnownBundles(bundles).stream('other').floor).toBe(0);
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
    expect(reason && reasonText(reason)).toMatch(/^ocp 4\.13\.7 has the same sequence 7 as ocp 4\.13\.7-rebuilt\./);
    expect(code({ sequence: 7 }, { bundles: [stored(verified({ name: 'tools', sequence: 7 }))] })).toBeUndefined();
  });

  it('update.base: a bundle of another stream is no base', () => {
    const tools = stored(verified({ name: 'tools', version: '1.0.0' }));
    const delta = verified({ version: '4.13.8', sequence: 8, update: { base: tools.bundleId } });
    const reason = refuseAdoption(delta, context({ bundles: [tools] }));
    expect(reason?.code).toBe('bundle/base');
    expect(reason && reasonText(reason)).toBe(
      'ocp 4.13.8 builds on tools 1.0.0, a bundle of another stream. Make it again with a base of stream ocp, or without one',
    );
    const base = stored(verified());
    expect(
      code({ version: '4.13.8', sequence: 8, update: { base: base.bundleId } }, { bundles: [base] }),
    ).toBeUndefined();
  });

  it('expires: an expired bundle is refused, to the millisecond', () => {
    const at = (ms: number) => new Date(ms).toISOString();
    expect(code({ expires: at(NOON) })).toBe('bundle/expired');
    expect(code({ expires: at(NOON + 1) })).toBeUndefined();
  });

  it('expires: the clock counts as at least the newest created time of the adopted bundles', () => {
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

  it('created: the newest adopted bundle or notice counts in its own stream only', () => {
    const created = '2026-06-01T00:00:00Z';
    const tools = stored(verified({ name: 'tools', created }));
    const notice = stored(verified({ version: '2026.6.1', sequence: 3, images: {}, created }));
    const expires = '2026-05-01T00:00:00Z';
    expect(code({ expires }, { bundles: [notice] })).toBe('bundle/expired');
    expect(code({ expires, name: 'tools', sequence: 9 }, { bundles: [tools] })).toBe('bundle/expired');
    expect(code({ expires }, { bundles: [tools] })).toBeUndefined();
  });

  it('created: its distance from now is measured by the clock alone, not by adopted bundles', () => {
    const bundles = [stored(verified({ sequence: 3, version: '4.13.3', created: '2026-06-01T00:00:00Z' }))];
    expect(code({ created: '2026-05-31T00:00:00Z' }, { bundles })).toBe('bundle/from-the-future');
  });

  it('sequence: no other bundle may have the sequence of the floor, which stays when the release is retired or rolled back', () => {
    const top = { sequence: 8, version: '4.13.8' };
    for (const marks of [{ retiredAt: NOON + 1 }, { rolledBackAt: NOON + 1, rolledBackReason: 'it failed' }]) {
      const bundles = [stored(verified(top), { activatedAt: NOON, ...marks })];
      expect(code({ sequence: 7 }, { bundles })).toBe('bundle/sequence');
      expect(code({ sequence: 8, version: '4.13.8-rev2' }, { bundles })).toBe('bundle/sequence');
    }
  });
});

describe('adoption (docs/decisions/trust.md)', () => {
  const old = verified({ sequence: 7, expires: '2026-03-10T00:00:00Z' });
  const newer = verified({ sequence: 8, version: '4.13.8' });
  const stick = (...bundles: readonly ReturnType<typeof verified>[]) =>
    observation({
      media: [
        medium(
          'sdb1',
          bundles.map((one) => found(one)),
        ),
      ],
    });
  const sequences = (...[observed, bundles]: Parameters<typeof judge>) =>
    judge(observed, bundles).assessment.adoptions.map((adoption) => adoption.found.bundle.payload.sequence);

  it('"sequence and expiry judge whether an unknown bundle is adopted"', () => {
    const expired = judge(stick(old)).assessment;
    expect(expired).toMatchObject({ adoptions: [], rejections: [{ reason: { code: 'bundle/expired' } }] });
    const below = judge(stick(verified()), [stored(newer, { activatedAt: NOON })]).assessment;
    expect(below).toMatchObject({ adoptions: [], rejections: [{ reason: { code: 'bundle/sequence' } }] });
  });

  it('"once adopted stays a source of blobs for mending and rollback, whatever its sequence or age"', () => {
    const known = [stored(old, { readyAt: NOON, activatedAt: NOON }), stored(newer, { activatedAt: NOON + 1 })];
    const { first, assessment } = judge(stick(old), known);
    expect(assessment.rejections).toEqual([]);
    expect(first).toMatchObject({ media: ['sdb1'], pullableImages: old.contents.images });
    const asked = { ...known[0], activationRequestedAt: NOON + 2 } as (typeof known)[0] & object;
    const there = observation({ runtime: reachable({ images: [...allListed(old), ...allListed(newer)] }) });
    expect(judge(there, [asked, ...known.slice(1)]).first).toMatchObject({ activationDue: true });
  });

  it('"unless its key is revoked"', () => {
    const revocations = { keyIds: [keyIdOf('factory-2026')], revocationsUnreadable: false };
    const { first } = judge({ ...stick(old), revocations }, [stored(old)]);
    expect(first).toMatchObject({ phase: 'rejected', pullableImages: [], reason: { code: 'trust/key-revoked' } });
  });

  it('"the floor rises with activation, so that a barrier release on the same stick can still be taken first"', () => {
    const barrier = verified({ sequence: 7, update: { barrier: { reason: 'etcd' } } });
    for (const order of [
      [barrier, newer],
      [newer, barrier],
    ]) {
      expect(sequences(stick(...order)).sort()).toEqual([7, 8]);
    }
    expect(sequences(stick(barrier), [stored(newer)])).toEqual([7]);
    expect(sequences(stick(barrier), [stored(newer, { activatedAt: NOON })])).toEqual([]);
  });

  it('sequence: of two bundles with the same sequence that arrive together, one is adopted', () => {
    const rebuilt = verified({ version: '4.13.7-rev2' });
    const { assessment } = judge(stick(verified(), rebuilt));
    expect(assessment.adoptions).toHaveLength(1);
    expect(assessment.rejections).toMatchObject([
      {
        name: 'ocp@4.13.7-rev2',
        reason: { code: 'bundle/sequence', data: { known: { name: 'ocp', version: '4.13.7' } } },
      },
    ]);
  });

  it('created: bundles that arrive together move the clock too', () => {
    const fresh = verified({ version: '4.13.8', sequence: 8, created: '2026-03-11T08:00:00Z' });
    const stale = verified({ expires: '2026-03-11T00:00:00Z' });
    expect(sequences(stick(stale))).toEqual([7]);
    expect(judge(stick(fresh, stale)).assessment.rejections).toMatchObject([{ reason: { code: 'bundle/expired' } }]);
  });
});

describe('trust.max_sequence_step while one stick stays plugged in', () => {
  const policy: Policy = { ...POLICY, trust: { ...POLICY.trust, max_sequence_step: 100 } };
  const of = (sequence: number) => verified({ sequence, version: `4.13.${sequence}` });
  const scene = (sequences: readonly number[], arrivals: Scene['arrivals'] = new Map()) =>
    observation({
      arrivals,
      media: [
        medium(
          'sdb1',
          sequences.map((sequence) => found(of(sequence))),
        ),
      ],
    });
  /** Adopts in rounds until nothing more is taken. Returns the sequences that were, in order. */
  const climb = (sequences: readonly number[], known: readonly StoredBundle[], arrivals?: Scene['arrivals']) => {
    const bundles = [...known];
    let { assessment } = judge(scene(sequences, arrivals), bundles, policy);
    for (; assessment.adoptions.length > 0; ) {
      for (const { found: taken } of assessment.adoptions)
        bundles.push(stored(taken.bundle, { readyAt: NOON, activatedAt: NOON }));
      assessment = judge(scene(sequences, assessment.arrivals), bundles, policy).assessment;
    }
    return bundles.slice(known.length).map(({ payload }) => payload.sequence);
  };
  const active = (sequence: number) => stored(of(sequence), { activatedAt: NOON });
  const reset = (sequence: number) => stored(of(sequence), { activatedAt: NOON, resetAt: NOON + 1 });

  it('it counts from where the stream was then: what came from it does not raise the limit', () => {
    expect(climb([150, 250, 350], [active(100)])).toEqual([150]);
    expect(climb([150, 200, 250], [active(100)])).toEqual([150, 200]);
  });

  it('also once what the stream had then is forgotten', () => {
    const { arrivals } = judge(scene([200]), [active(100)], policy).assessment;
    expect(climb([300], [active(200)], arrivals)).toEqual([]);
  });

  it.each([
    { was: 'far above', before: 900_000 },
    { was: 'far below', before: 10 },
  ])('a stream that was $was and is reset meanwhile counts anew, from the first that is taken', ({ before }) => {
    const { arrivals } = judge(scene([]), [active(before)], policy).assessment;
    expect(climb([5_000, 5_050, 5_150, 5_250], [reset(before)], arrivals)).toEqual([5_000, 5_050]);
  });
});
