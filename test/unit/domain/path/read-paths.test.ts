import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  effectiveAdvisories,
  isDenied,
  milestonesOf,
  pathOf,
  placeIn,
  positionOf,
  readPaths,
} from '../../../../src/domain/activation/read-paths.ts';
import { deadendBlock } from '../../../../src/domain/activation/stream-path.ts';
import type { Payload, UpdateRules } from '../../../../src/domain/model/bundle.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { NOON, POLICY, pathWith, stored, verified } from '../../../support/daemon/scenario.ts';

const release = (minor: number, over: Partial<StoredBundle> = {}, payload: Partial<Payload> = {}): StoredBundle => ({
  ...stored(verified({ version: `1.${minor}.0`, sequence: minor, images: { [`etcd-${minor}`]: ['os'] }, ...payload })),
  ...over,
});
const says = (sequence: number, version: string, over: { barrier?: true; deadend?: true } = {}) =>
  stored(
    verified({
      version: `2026.1.${sequence}`,
      sequence,
      images: {},
      advisories: [{ version, reason: `said by ${sequence}`, ...over }],
    }),
  );
const active = (at: number) => ({ readyAt: 1, activatedAt: at });

describe('the position', () => {
  const at = (releases: readonly StoredBundle[], running?: readonly StoredBundle[], configured?: string) => {
    const ids = running && new Set(running.map(({ bundleId }) => bundleId));
    const position = positionOf(releases, ids, configured);
    return position && [position.version, position.source, position.isProven];
  };

  it.each<[when: string, was: ReturnType<typeof at>, is: ReturnType<typeof at>]>([
    ['is unknown where nothing was activated', at([release(1)]), undefined],
    ['is what the settings say there', at([release(1)], [], '1.7.0'), ['1.7.0', 'setting', true]],
    [
      'is what was activated, whatever the settings say',
      at([release(1, active(5))], undefined, '1.7.0'),
      ['1.1.0', 'activated', false],
    ],
    [
      'is the release that was activated last',
      at([release(2, active(5)), release(3, active(4))]),
      ['1.2.0', 'activated', false],
    ],
    [
      'is none that was rolled back',
      at([release(2, { ...active(5), provenAt: 6 }), release(3, { ...active(7), rolledBackAt: 8 })]),
      ['1.2.0', 'activated', true],
    ],
    [
      'is the one before while containers run from that one alone',
      at([release(2, { ...active(5), provenAt: 6 }), release(3, active(7))], [release(2)]),
      ['1.2.0', 'running', true],
    ],
    [
      'is the new one as soon as containers run from it',
      at([release(2, { ...active(5), provenAt: 6 }), release(3, active(7))], [release(2), release(3)]),
      ['1.3.0', 'activated', false],
    ],
    [
      'is the new one where nothing runs at all',
      at([release(2, { ...active(5), provenAt: 6 }), release(3, active(7))], []),
      ['1.3.0', 'activated', false],
    ],
    [
      'is a retired one when no other was activated',
      at([release(2, { ...active(5), retiredAt: 6 })]),
      ['1.2.0', 'activated', false],
    ],
  ])('%s', (_when, was, is) => {
    expect(was).toEqual(is);
  });
});

describe('a dead end that was activated, while containers still run from the release before', () => {
  const before = release(2, { ...active(5), provenAt: 6 });
  const next = release(4, { readyAt: 8 });
  const holdOf = (deadEnd: StoredBundle, running: readonly StoredBundle[], target = next) => {
    const bundles = [before, deadEnd, next];
    const paths = readPaths({
      ...{ releases: bundles, arriving: [], speakers: bundles, policy: POLICY, now: NOON },
      running: new Set(running.map(({ bundleId }) => bundleId)),
    });
    const path = pathOf(paths, 'ocp');
    return deadendBlock(path, placeIn(path, target))?.current;
  };
  const update = { deadend: { reason: 'the data is moved' } };

  it('holds later releases before its own containers run, and afterwards', () => {
    const deadEnd = release(3, active(7), { update });
    expect([holdOf(deadEnd, [before]), holdOf(deadEnd, [before, deadEnd]), holdOf(deadEnd, [])]).toEqual([
      '1.3.0',
      '1.3.0',
      '1.3.0',
    ]);
  });

  it('holds neither itself nor the release that runs, and nothing when it was rolled back', () => {
    const deadEnd = release(3, active(7), { update });
    expect([holdOf(deadEnd, [before], deadEnd), holdOf(deadEnd, [before], before)]).toEqual([undefined, undefined]);
    const rolledBack = release(3, { ...active(7), rolledBackAt: 8 }, { update });
    expect(holdOf(rolledBack, [before])).toBeUndefined();
  });
});

describe('barriers and dead ends', () => {
  const kinds = (bundles: readonly StoredBundle[]) =>
    [...milestonesOf(bundles, 'ocp')].map(
      ([version, { isBarrier, isDeadEnd, saidBy }]) =>
        `${version} ${[isBarrier && 'barrier', isDeadEnd && 'dead end'].filter(Boolean).join('+')} by ${saidBy}`,
    );
  const own = (update: UpdateRules) => release(3, {}, { update });
  const barrier = { barrier: { reason: 'x' } };

  it.each<[when: string, bundles: readonly StoredBundle[], is: readonly string[]]>([
    [
      'what a bundle said of another release does not count once its stream was reset',
      [{ ...says(Number.MAX_SAFE_INTEGER, '1.5.0', { deadend: true }), resetAt: 9 }],
      [],
    ],
    [
      'after a reset a newer bundle has the last word, whatever the sequence before it was',
      [{ ...release(3, {}, { sequence: Number.MAX_SAFE_INTEGER, update: barrier }), resetAt: 9 }, says(4, '1.3.0')],
      [],
    ],
    ['a release says it of itself', [own(barrier)], ['1.3.0 barrier by ocp@1.3.0']],
    ['a release may be both', [own({ ...barrier, deadend: { reason: 'y' } })], ['1.3.0 barrier+dead end by ocp@1.3.0']],
    ['an advisory says it', [says(9, '1.3.0', { deadend: true })], ['1.3.0 dead end by ocp@2026.1.9']],
    [
      'a newer advisory replaces what the release said',
      [own(barrier), says(9, '1.3.0', { deadend: true })],
      ['1.3.0 dead end by ocp@2026.1.9'],
    ],
    ['a newer one that is neither withdraws it', [own(barrier), says(9, '1.3.0')], []],
    ['an older advisory withdraws nothing', [own(barrier), says(2, '1.3.0')], ['1.3.0 barrier by ocp@1.3.0']],
    [
      'a release that says nothing of itself withdraws nothing',
      [says(2, '1.3.0', { barrier: true }), own({})],
      ['1.3.0 barrier by ocp@2026.1.2'],
    ],
    ['another stream says nothing', [{ ...own(barrier), payload: { ...own(barrier).payload, name: 'x' } }], []],
  ])('%s', (_when, bundles, is) => {
    expect(kinds(bundles)).toEqual(is);
    expect(kinds([...bundles].reverse())).toEqual(is);
  });

  it('advisories alone are those of the newest sequence', () => {
    const known = effectiveAdvisories([says(9, '1.3.0'), says(8, '1.3.0', { barrier: true })], 'ocp');
    expect(known.get('1.3.0')).toEqual({ version: '1.3.0', reason: 'said by 9', from: 'ocp@2026.1.9' });
  });
});

describe('what was rolled back', () => {
  const back = release(4, { ...active(5), rolledBackAt: 6 });

  it.each<[when: string, bundle: StoredBundle, is: boolean]>([
    ['is denied', back, true],
    [
      'is denied to a rebuilt one of the same images',
      release(4, { bundleId: back.bundleId.replace(/.$/, 'f') as never }),
      true,
    ],
    ['is not denied to a newer release', release(5), false],
    ['is lifted by a person who asks', { ...back, activationRequestedAt: 7 }, false],
    ['is lifted by its activation', { ...back, activatedAt: 7 }, false],
  ])('%s', (_when, bundle, is) => {
    expect(isDenied(bundle, [bundle.bundleId === back.bundleId ? bundle : back, bundle])).toBe(is);
  });
});

describe('the path of a stream', () => {
  it('is the same for any order of its bundles', () => {
    const all = [
      release(2, { ...active(5), provenAt: 6 }),
      release(3, {}, { update: { barrier: { reason: 'x' } } }),
      release(4),
      says(9, '1.4.0', { barrier: true }),
    ];
    const expected = pathWith(all).route.map(({ version }) => version);
    expect(expected).toEqual(['1.3.0', '1.4.0', '2026.1.9']);
    fc.assert(
      fc.property(fc.shuffledSubarray(all, { minLength: all.length }), (order) => {
        expect(pathWith(order).route.map(({ version }) => version)).toEqual(expected);
      }),
    );
  });

  it('contains bundles that are about to be adopted, and counts an older release that arrived later as a downgrade', () => {
    const policy = { ...POLICY, update: { ...POLICY.update, allow_downgrade: true } };
    const present = release(5, { ...active(NOON), adoptedAt: NOON - 2 });
    const passed = release(3, { adoptedAt: NOON - 1 });
    const arriving = verified({ version: '1.2.0', sequence: 2, images: {} });
    const path = pathWith([present, passed], { arriving: [arriving], policy });
    expect(path.route.map(({ version }) => version)).toEqual(['1.2.0']);
    expect(pathWith([present, passed], { policy }).route).toEqual([]);
  });
});
