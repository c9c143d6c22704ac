import { describe, expect, it } from 'vitest';
import type { FleetNode, ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { type OwnTurn, turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import {
  BY_NAME,
  isLabelSelector,
  mostUnavailable,
  orderOfRelease,
  placeOf,
  type RollOutOrder,
  stricterOrder,
} from '../../../../src/domain/model/roll-out-order.ts';
import { defined } from '../../../../src/platform/defined.ts';

const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  scheme: undefined,
};
const DONE = { phase: 'activated', current: true } as const;
const order = (over: Partial<RollOutOrder>): RollOutOrder => ({ ...BY_NAME, ...over });

function node(name: string, release: Partial<ReleaseStatus> = {}, out?: 'cordoned' | 'not-ready'): FleetNode {
  const own = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' as const };
  return { name, isAbsent: false, status: { version: 1, releases: [{ ...own, ...release }], ...(out && { out }) } };
}

/** What holds `self`, as `before a`, or `go`. */
function turn(self: string, nodes: readonly FleetNode[], of: Partial<RollOutOrder> = {}, own: OwnTurn = {}): string {
  const found = turnOf(RELEASE, { self, nodes: [...nodes, node(self)], peers: [] }, order(of), own);
  return 'node' in found ? `${found.kind} ${found.node.name}` : found.kind;
}

describe('the place of a node', () => {
  const zones = { groups: ['zone=a', 'zone=b'] };
  const master = { 'node-role.kubernetes.io/control-plane': '' };

  it.each([
    [order({}), {}, 1],
    [order(zones), { zone: 'a' }, 1],
    [order(zones), { zone: 'b' }, 2],
    [order(zones), { zone: 'c' }, 3],
    [order({ controlPlane: 'last' }), {}, 1],
    [order({ controlPlane: 'last' }), master, 2],
    [order({ controlPlane: 'first' }), master, 1],
    [order({ controlPlane: 'first' }), {}, 2],
    [order({ ...zones, controlPlane: 'last' }), { ...master, zone: 'a' }, 4],
    [order({ ...zones, controlPlane: 'last' }), { zone: 'c' }, 3],
    [order({ ...zones, canary: { nodes: 'spare', soakMs: 0 } }), { zone: 'b', spare: 'yes' }, 0],
  ])('follows from its labels: %j %j', (of, labels, place) => expect(placeOf(of, labels)).toBe(place));

  it.each([
    ['zone=a', true],
    ['zone==a , !spare', true],
    ['topology.kubernetes.io/zone!=a,spare', true],
    ['a=', true],
    ['', false],
    ['zone in (a,b)', false],
    ['=a', false],
    ['a=b=c', false],
    ['!a=b', false],
  ])('takes the selector %j: %j', (text, isOne) => expect(isLabelSelector(text)).toBe(isOne));

  it('needs all requirements of a selector', () => {
    const of = order({ groups: ['zone=a,!spare,disk!=slow'] });
    expect(placeOf(of, { zone: 'a' })).toBe(1);
    for (const more of [{ spare: '' }, { disk: 'slow' }]) expect(placeOf(of, { zone: 'a', ...more })).toBe(2);
    expect(placeOf(of, {})).toBe(2);
  });
});

describe('nodes at the same time', () => {
  it.each([
    ['25%', 8, 2],
    ['25%', 7, 1],
    ['1%', 5, 1],
    ['100%', 5, 5],
    [3, 2, 3],
  ] as const)('%j of %i nodes are %i', (most, size, count) =>
    expect(mostUnavailable(order({ maxUnavailable: [most] }), size)).toBe(count),
  );

  it('go while a slot of their group is free, by name', () => {
    const two = { maxUnavailable: [2] };
    expect(turn('b', [node('a'), node('c')], two)).toBe('go');
    expect(turn('c', [node('a'), node('b')], two)).toBe('before a');
    expect(turn('c', [node('a', DONE), node('b')], two)).toBe('go');
  });

  it('are at most as many as the node itself allows, and as the order of the release', () => {
    const signed = orderOfRelease({ maxUnavailable: '50%', canary: { nodes: 1, soakMinutes: 5 } });
    const own = { controlPlane: 'last', canary: { nodes: 3, soakMs: 600_000 }, maxUnavailable: [1] } as const;
    const both = stricterOrder(signed, order(own));
    expect(both).toEqual({
      ...signed,
      canary: { nodes: 1, soakMs: 600_000 },
      maxUnavailable: ['50%', 1],
    });
  });

  it('are as many as the order of the release allows where the node says nothing, and one without any order', () => {
    const signed = orderOfRelease({ maxUnavailable: '50%' });
    expect(mostUnavailable(stricterOrder(signed, BY_NAME), 8)).toBe(4);
    expect(mostUnavailable(BY_NAME, 8)).toBe(1);
  });

  it.each([
    [undefined, undefined, undefined],
    ['go-on', undefined, 'go-on'],
    ['go-on', 'go-on', 'go-on'],
    ['go-on', 'pause', 'pause'],
    [undefined, 'go-on', undefined],
    ['pause', 'go-on', 'pause'],
  ] as const)('go on after a rollback where the release says so (%s) and the node allows it (%s): %s', (...all) => {
    const [signed, own, expected] = all;
    const both = stricterOrder(orderOfRelease(defined({ onRollback: signed })), order({ onRollback: own }));
    expect(both.onRollback).toBe(expected);
  });
});

describe('groups', () => {
  const last = { controlPlane: 'last' } as const;

  it('come one after the other', () => {
    expect(turn('z', [node('a', { place: 2 })], last, { place: 1 })).toBe('go');
    expect(turn('a', [node('z', { place: 1 })], last, { place: 2 })).toBe('before z');
    expect(turn('a', [node('z', { ...DONE, place: 1 })], last, { place: 2 })).toBe('go');
  });

  it('do not overlap, however many slots they have', () => {
    const wide = { ...last, maxUnavailable: [100] };
    expect(turn('a', [node('y', { ...DONE, place: 1 }), node('z', { place: 1 })], wide, { place: 2 })).toBe('before z');
  });

  it('end with nodes that do not know their labels yet', () => {
    expect(turn('a', [node('z', { place: 2 })], last)).toBe('before z');
    expect(turn('z', [node('a')], last, { place: 2 })).toBe('go');
  });
});

describe('canaries', () => {
  const canary = { nodes: 1, soakMs: 60_000 };

  it('go first, and the rest when they have run it for long enough', () => {
    expect(turn('a', [node('b'), node('c')], { canary })).toBe('go');
    expect(turn('b', [node('a'), node('c')], { canary })).toBe('before a');
    expect(turn('b', [node('a', DONE), node('c')], { canary })).toBe('soak a');
    expect(turn('b', [node('a', { ...DONE, soaked: true }), node('c')], { canary })).toBe('go');
  });

  it('are those with the labels', () => {
    const spare = { canary: { nodes: 'spare', soakMs: 60_000 } };
    expect(turn('z', [node('a', { place: 1 })], spare, { place: 0 })).toBe('go');
    expect(turn('a', [node('z', { ...DONE, place: 0 })], spare, { place: 1 })).toBe('soak z');
  });

  it('hold the rest when they fall silent with the release, or are not ready', () => {
    const silent = (name: string, release: Partial<ReleaseStatus>) => ({ ...node(name, release), isAbsent: true });
    expect(turn('b', [silent('a', DONE), node('c')], { canary })).toBe('soak a');
    expect(turn('b', [silent('a', { ...DONE, soaked: true }), node('c')], { canary })).toBe('go');
    expect(turn('b', [silent('a', {}), node('c')], { canary })).toBe('go');
    expect(turn('b', [node('a', { ...DONE, soaked: true }, 'not-ready')], { canary })).toBe('soak a');
  });

  it('all have to stay in force', () => {
    const gone = { phase: 'activated', current: true, runs: false, soaked: true } as const;
    expect(turn('b', [node('a', gone)], { canary })).toBe('before a');
  });
});

describe('a node that is cordoned or not ready', () => {
  it('is not waited for before it has begun, and is named', () => {
    const nodes = [node('a', { phase: 'preloading' }, 'cordoned'), node('b')];
    expect(turnOf(RELEASE, { self: 'b', nodes, peers: [] })).toEqual({ kind: 'go', absent: [], out: ['a'] });
  });

  it('is waited for once it has begun: the release may cordon or reboot it', () => {
    expect(turn('b', [node('a', { begun: true }, 'cordoned')])).toBe('before a');
    expect(turn('b', [node('a', { ...DONE, runs: false }, 'not-ready')])).toBe('before a');
    expect(turn('b', [node('a', DONE, 'not-ready')])).toBe('go');
  });

  it('does not wait for a cordoned node when it is out itself', () => {
    expect(turn('n', [node('a', {}, 'cordoned'), node('b', DONE)], {}, { out: 'not-ready' })).toBe('go');
  });

  it('comes last itself, and waits for nodes that have begun without it', () => {
    expect(turn('a', [node('b')], {}, { out: 'not-ready' })).toBe('before b');
    expect(turn('a', [node('b', { begun: true })])).toBe('before b');
    expect(turn('a', [node('b', { ...DONE, runs: false })])).toBe('before b');
    expect(turn('a', [node('b', DONE)])).toBe('go');
  });
});
