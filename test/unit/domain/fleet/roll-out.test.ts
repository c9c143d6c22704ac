import { describe, expect, it } from 'vitest';
import type { FleetNode, NodeFacts, ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { type OwnTurn, turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { NO_SIGHTINGS, type Sightings, sightingKey, sightingsAfter } from '../../../../src/domain/fleet/sightings.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import {
  BY_NAME,
  forgeableKeys,
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
  replaces: '4.13.6',
};
const FIRST = { release: { replaces: undefined } };
const ACTIVE = { phase: 'active', current: true, runs: true } as const;
const DONE = { phase: 'activated', current: true } as const;
const PROVEN = { phase: 'proven', current: true, runs: true } as const;
const ILL = { isReady: false };
const order = (over: Partial<RollOutOrder>): RollOutOrder => ({ ...BY_NAME, settleMs: 0, ...over });
const MINUTE = 60_000;
const NOW = 100 * MINUTE;

interface Of extends NodeFacts {
  readonly isAbsent: boolean;
  readonly isSilent: true;
}

function node(name: string, release: Partial<ReleaseStatus> = {}, of: Partial<Of> = {}): FleetNode {
  const own = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' as const };
  const { isAbsent = false, isSilent, ...facts } = of;
  return {
    name,
    isAbsent,
    status: { version: 1, releases: [{ ...own, ...release }] },
    facts: { labels: {}, isReady: true, isCordoned: false, ...facts },
    ...(isSilent && { isSilent }),
  };
}

/** Each node has been seen as it is for so long. */
function seen(nodes: readonly FleetNode[], forMs = 0, before = NO_SIGHTINGS): Sightings {
  const view = { self: '', nodes, peers: [] };
  let sightings = sightingsAfter(before, view, NOW - forMs);
  for (let leftMs = forMs; leftMs > 0; leftMs -= MINUTE) sightings = sightingsAfter(sightings, view, NOW - leftMs);
  return sightingsAfter(sightings, view, NOW);
}

interface Over extends OwnTurn {
  readonly apiTrouble?: string;
  readonly release?: { readonly replaces: undefined };
  readonly self?: FleetNode;
}

/** What holds `self`, as `before a`, or `go`. */
function turn(self: string, nodes: readonly FleetNode[], of: Partial<RollOutOrder> = {}, over: Over = {}): string {
  const { apiTrouble, release, self: own = node(self), ...ways } = over;
  const view = { self, nodes: [...nodes.filter(({ name }) => name !== self), own], peers: [] };
  const found = turnOf({ ...RELEASE, ...release }, { ...view, ...(apiTrouble && { apiTrouble }) }, order(of), {
    sightings: seen(nodes),
    ...ways,
  });
  const [why, left] = ['why' in found ? `: ${found.why}` : '', 'leftMs' in found ? ` ${found.leftMs}` : ''];
  return 'node' in found ? `${found.kind} ${found.node.name}${why}${left}` : found.kind;
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
      settleMs: 120_000,
      pauseAfterFailures: 1,
    });
  });

  it('count as done no earlier for the settings of the node, and fewer of them may fail', () => {
    const signed = orderOfRelease({ settleSeconds: 60, pauseAfterFailures: 3 });
    const own = (settleMs: number, more: object = {}) => stricterOrder(signed, { ...BY_NAME, settleMs, ...more });
    expect(own(1)).toMatchObject({ settleMs: 60_000, pauseAfterFailures: 3, done: undefined });
    expect(own(90_000, { pauseAfterFailures: 9 })).toMatchObject({ settleMs: 90_000, pauseAfterFailures: 3 });
    expect(own(0, { pauseAfterFailures: 1, done: 'proven' })).toMatchObject({ pauseAfterFailures: 1, done: 'proven' });
    const strict = stricterOrder(orderOfRelease({ done: 'proven' }), { ...BY_NAME, done: 'activated' });
    expect(strict.done).toBe('proven');
  });

  it('are marked where a node can forge the labels that order them', () => {
    const keys = (over: Partial<RollOutOrder>) => forgeableKeys(order(over));
    expect(keys({ controlPlane: 'last', groups: ['node-restriction.kubernetes.io/zone=a'] })).toEqual([]);
    expect(keys({ groups: ['zone=a,!spare'], canary: { nodes: 'test', soakMs: 0 } })).toEqual([
      'spare',
      'test',
      'zone',
    ]);
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
  const master = { labels: { 'node-role.kubernetes.io/control-plane': '' } };

  it('come one after the other', () => {
    expect(turn('z', [node('a', {}, master)], last)).toBe('go');
    expect(turn('a', [node('z')], last, { self: node('a', {}, master) })).toBe('before z');
    expect(turn('a', [node('z', DONE)], last, { self: node('a', {}, master) })).toBe('go');
  });

  it('do not overlap, however many slots they have', () => {
    const wide = { ...last, maxUnavailable: [100] };
    expect(turn('a', [node('y', DONE), node('z')], wide, { self: node('a', {}, master) })).toBe('before z');
  });
});

describe('canaries', () => {
  const soakMs = 30 * MINUTE;
  const canary = { nodes: 1, soakMs };
  // By the hash of the bundle and the name.
  const names = ['a', 'b', 'c', 'd'];
  const chosen = (count: number, release = RELEASE) => {
    const line = turnOf(
      release,
      { self: 'a', nodes: names.map((name) => node(name)), peers: [] },
      order({ canary: { nodes: count, soakMs } }),
    );
    return line.line
      .filter(({ isCanary }) => isCanary)
      .map(({ name }) => name)
      .sort();
  };

  it('are drawn by the digest of the bundle, so that no node can choose itself', () => {
    expect(chosen(1)).toEqual(['b']);
    expect(chosen(2)).toEqual(['b', 'd']);
    const others = ['b', 'c', 'd', 'e', 'f'].map(
      (digit) => chosen(1, { ...RELEASE, bundleId: digestFromHex(digit.repeat(64)) })[0],
    );
    expect(new Set(others).size).toBeGreaterThan(1);
  });

  it('go first, and the rest when they have run it for long enough by the clock of each node', () => {
    const rest = [node('c'), node('d')];
    expect(turn('b', [node('a'), ...rest], { canary })).toBe('go');
    expect(turn('a', [node('b'), ...rest], { canary })).toBe('before b');
    const fresh = [node('b', PROVEN), ...rest];
    expect(turn('a', fresh, { canary })).toBe(`soak b ${soakMs}`);
    expect(turn('a', fresh, { canary }, { sightings: seen(fresh, soakMs - 1) })).toBe('soak b 1');
    expect(turn('a', fresh, { canary }, { sightings: seen(fresh, soakMs) })).toBe('go');
  });

  it('must have proven it where containers show that, whatever they claim to have soaked', () => {
    const active = [node('d', ACTIVE)];
    expect(turn('a', active, { canary }, { sightings: seen(active, 10 * soakMs) })).toBe('soak d');
    const unseen = [node('d', DONE)];
    expect(turn('a', unseen, { canary }, { sightings: seen(unseen, soakMs) })).toBe('go');
  });

  it('are those with the labels', () => {
    const spare = { canary: { nodes: 'spare', soakMs } };
    const own = { self: node('z', {}, { labels: { spare: '' } }) };
    expect(turn('z', [node('a')], spare, own)).toBe('go');
    expect(turn('a', [node('z', PROVEN, { labels: { spare: '' } })], spare)).toBe(`soak z ${soakMs}`);
  });

  it('are of the control plane only where that comes first, by a label that no node can set on itself', () => {
    const master = { labels: { 'node-role.kubernetes.io/control-plane': '' } };
    const drawn = (controlPlane: 'first' | 'last') =>
      turn('a', [node('b'), node('c', {}, master), node('d', {}, master)], { canary, controlPlane });
    expect(drawn('first')).toBe('before d');
    expect(drawn('last')).toBe('before b');
  });

  it('hold the rest when they fall silent with the release before it is proven, or are not ready', () => {
    const silent = { isAbsent: true, isReady: false };
    expect(turn('a', [node('d', ACTIVE, silent), node('c')], { canary })).toBe('failed d: silent');
    expect(
      turn(
        'a',
        [node('d', {}, silent), node('c', PROVEN)],
        { canary },
        { sightings: seen([node('c', PROVEN)], soakMs) },
      ),
    ).toBe('go');
    const sick = [node('d', PROVEN, ILL)];
    expect(turn('a', sick, { canary })).toBe('unavailable d: not-ready');
  });

  it('begin their soak anew with a restart of containers, and when they were not ready', () => {
    const soaked = seen([node('d', PROVEN)], soakMs);
    const view = (one: FleetNode) => ({ self: 'a', nodes: [one, node('a')], peers: [] });
    const wellMs = (one: FleetNode) =>
      sightingsAfter(soaked, view(one), NOW + 1_000).get(sightingKey('d', 'a'.repeat(16)))?.wellMs;
    expect(wellMs(node('d', PROVEN))).toBe(soakMs + 1_000);
    expect(wellMs(node('d', { ...PROVEN, disturbedMs: 7 }))).toBe(0);
    expect(wellMs(node('d', PROVEN, ILL))).toBeUndefined();
    expect(wellMs(node('d', { ...PROVEN, runs: false }))).toBeUndefined();
    expect(wellMs(node('d', { ...PROVEN, fails: true }))).toBeUndefined();
    expect(sightingsAfter(soaked, undefined, NOW)).toBe(soaked);
  });
});

describe('a node that has activated', () => {
  const settleMs = 2 * MINUTE;

  it('holds the next one until it has run it and was Ready for a while', () => {
    const nodes = [node('a', DONE)];
    expect(turn('b', nodes, { settleMs })).toBe(`settle a ${settleMs}`);
    expect(turn('b', nodes, { settleMs }, { sightings: seen(nodes, settleMs) })).toBe('go');
    expect(turn('b', nodes, { settleMs: undefined }, { sightings: seen(nodes, settleMs - 1) })).toBe('settle a 1');
    const ill = [node('a', DONE, ILL)];
    expect(turn('b', ill, { settleMs }, { sightings: seen(ill, settleMs) })).toBe('unavailable a: not-ready');
  });

  it.each([
    [{ done: 'proven' } as const, {}],
    [{}, { apiTrouble: 'The Kubernetes API does not answer.' }],
  ])('must have proven it where the order says so, and where no API server answers: %j %j', (of, over) => {
    expect(turn('b', [node('a', ACTIVE)], of, over)).toBe('settle a');
    expect(turn('b', [node('a', PROVEN)], of, over)).toBe('go');
    expect(turn('b', [node('a', DONE)], of, over)).toBe('go');
  });

  it('has failed when it is not ready for minutes, degraded, silent, or went back', () => {
    const ill = [node('a', ACTIVE, ILL), node('c')];
    const minutes = (count: number) => ({ sightings: seen(ill, count * MINUTE, seen([node('a', ACTIVE)])) });
    expect(turn('b', ill, { maxUnavailable: [3] }, minutes(4))).toBe('go');
    expect(turn('b', ill, { maxUnavailable: [3] }, minutes(5))).toBe('failed a: not-ready');
    expect(turn('b', [node('a', { ...PROVEN, degraded: true })])).toBe('failed a: degraded');
    expect(turn('b', [node('c', { phase: 'activated', rolledBack: true })])).toBe('failed c: rolled-back');
    expect(turn('b', [node('a', ACTIVE, { isAbsent: true })])).toBe('failed a: silent');
  });

  it('holds nobody by its failure where the order allows more', () => {
    const two = { pauseAfterFailures: 2 };
    const back = { phase: 'activated', rolledBack: true } as const;
    expect(turn('b', [node('a', back)], two)).toBe('go');
    expect(turn('b', [node('a', back), node('c', back)], two)).toBe('failed a: rolled-back');
  });

  it('keeps no later group waiting by its failure where the order allows more, but always as a canary', () => {
    const zones = { groups: ['zone=a', 'zone=b'], pauseAfterFailures: 2, maxUnavailable: [2] };
    const a = (release: Partial<ReleaseStatus>, of: Partial<Of> = {}) =>
      node('a', release, { labels: { zone: 'a' }, ...of });
    const self = node('b', {}, { labels: { zone: 'b' } });
    const ill = [a(ACTIVE, ILL), node('c')];
    const failed = { self, sightings: seen(ill, 5 * MINUTE, seen([a(ACTIVE)])) };
    expect(turn('b', ill, zones, failed)).toBe('go');
    expect(turn('b', [a({ ...PROVEN, fails: true, degraded: true })], zones, { self })).toBe('go');
    expect(turn('b', ill, { ...zones, canary: { nodes: 'zone=a', soakMs: 0 } }, failed)).toBe('failed a: not-ready');
    const back = a({ phase: 'activated', current: true, rolledBack: true });
    expect(turn('b', [back], { ...zones, canary: { nodes: 2, soakMs: 0 } }, { self })).toBe('failed a: rolled-back');
  });
});

describe('a node that was not Ready before the roll-out', () => {
  const ill = node('a', ACTIVE, ILL);
  const wide = { maxUnavailable: [3] };

  it('has not failed, however long it stays so, and leaves the next one that is not Ready its turn', () => {
    const before = seen([node('a', {}, ILL), node('c')], 10 * MINUTE);
    const nodes = [ill, node('c')];
    const later = (minutes: number) => ({ sightings: seen(nodes, minutes * MINUTE, before) });
    expect(turn('b', nodes, wide, later(60))).toBe('go');
    expect(turn('b', nodes, {}, later(60))).toBe('unavailable a: not-ready');
    const self = node('b', {}, ILL);
    const settleMs = 2 * MINUTE;
    expect(turn('b', nodes, { settleMs }, { self, ...later(4) })).toBe('unavailable a: not-ready');
    expect(turn('b', nodes, { settleMs }, { self, ...later(5) })).toBe('go');
  });

  it('has failed where it was Ready meanwhile', () => {
    const before = seen([node('a', ACTIVE)], 0, seen([node('a', {}, ILL)]));
    const nodes = [ill, node('c')];
    expect(turn('b', nodes, wide, { sightings: seen(nodes, 5 * MINUTE, before) })).toBe('failed a: not-ready');
  });

  it.each<[string, Partial<ReleaseStatus>]>([
    ['has proved it', PROVEN],
    ['has run it for settle, and no containers can show it', DONE],
  ])('has not failed by the release once it %s', (_what, release) => {
    const nodes = [node('a', release, ILL), node('c')];
    const well = seen([node('a', release)], 2 * MINUTE);
    const sightings = seen(nodes, 60 * MINUTE, well);
    expect(turn('b', nodes, { ...wide, settleMs: 2 * MINUTE }, { sightings })).toBe('go');
    const off = [node('a', release, { ...ILL, isAbsent: true }), node('c')];
    expect(turn('b', off, { settleMs: 2 * MINUTE }, { sightings: seen(off, 60 * MINUTE, well) })).toBe('go');
  });

  it('fails nobody at the first install, where the next one that is not Ready may need the release', () => {
    const nodes = [ill, node('c')];
    const sightings = seen(nodes, 5 * MINUTE, seen([node('a', ACTIVE)]));
    const self = node('b', {}, ILL);
    expect(turn('b', nodes, {}, { self, sightings })).toBe('failed a: not-ready');
    expect(turn('b', nodes, {}, { self, sightings, ...FIRST })).toBe('go');
    expect(turn('b', nodes, {}, { sightings, ...FIRST })).toBe('failed a: not-ready');
  });
});

describe('a node whose kubelet is not known', () => {
  const apiTrouble = 'The Kubernetes API does not answer.';
  const wellMs = (after: Sightings, release: Partial<ReleaseStatus>, of: Partial<Of> & { unknown?: true } = {}) => {
    const { unknown, ...facts } = of;
    const view = {
      self: 'b',
      nodes: [node('a', release, facts), node('c')],
      peers: [],
      ...(unknown && { apiTrouble }),
    };
    return sightingsAfter(after, view, NOW + MINUTE).get(sightingKey('a', 'a'.repeat(16)))?.wellMs;
  };

  it('goes on with its time, and never begins it after it was not Ready before it has proved the release', () => {
    const well = seen([node('a', ACTIVE)], 5 * MINUTE);
    expect(wellMs(well, ACTIVE, { unknown: true })).toBe(6 * MINUTE);
    const ill = seen([node('a', ACTIVE, ILL), node('c')], 5 * MINUTE);
    const unknown = sightingsAfter(
      ill,
      { self: 'b', nodes: [node('a', ACTIVE), node('c')], peers: [], apiTrouble },
      NOW + MINUTE / 2,
    );
    expect(wellMs(unknown, ACTIVE)).toBe(0);
    expect(wellMs(unknown, PROVEN, { unknown: true })).toBe(0);
    const proven = sightingsAfter(
      unknown,
      { self: 'b', nodes: [node('a', PROVEN), node('c')], peers: [], apiTrouble },
      NOW + MINUTE / 2,
    );
    expect(wellMs(proven, PROVEN, { unknown: true })).toBe(MINUTE / 2);
  });

  it('gets no time while it is silent', () => {
    const well = seen([node('a', PROVEN)], 5 * MINUTE);
    expect(wellMs(well, PROVEN, { unknown: true, isSilent: true })).toBe(5 * MINUTE);
  });

  it('gets no time for a gap, as after a restart', () => {
    const well = seen([node('a', PROVEN)], 5 * MINUTE);
    const view = { self: 'b', nodes: [node('a', PROVEN), node('c')], peers: [] };
    const later = sightingsAfter(well, view, NOW + 60 * MINUTE);
    expect(later.get(sightingKey('a', 'a'.repeat(16)))?.wellMs).toBe(5 * MINUTE);
  });
});

describe('the first release of a stream', () => {
  it('needs no soak, and waits for no canary that is not there', () => {
    const canary = { nodes: 1, soakMs: 60 * MINUTE };
    const nodes = [node('d', ACTIVE)];
    expect(turn('a', nodes, { canary })).toBe('soak d');
    expect(turn('a', nodes, { canary }, FIRST)).toBe('go');
    expect(turn('a', nodes, { canary: { ...canary, nodes: 'spare' } }, FIRST)).toBe('go');
  });

  it('is none where another node has an earlier one', () => {
    const canary = { nodes: 1, soakMs: 60 * MINUTE };
    const nodes = [node('d', ACTIVE), { ...node('e'), status: later('4.13.6') }];
    expect(turn('a', nodes, { canary }, FIRST)).toMatch(/^(not-ready|soak)/);
  });
});

describe('canaries that a label chooses', () => {
  const spare = { canary: { nodes: 'spare', soakMs: 0 } };
  const labels = { spare: '' };
  const found = (...nodes: readonly FleetNode[]) =>
    turnOf(RELEASE, { self: 'b', nodes: [node('b'), ...nodes], peers: [] }, order(spare));

  it('hold the others when they are gone or left out', () => {
    expect(found(node('a'))).toMatchObject({ kind: 'no-canary', selector: 'spare', names: [] });
    expect(found(node('a'), node('z', {}, { labels, isCordoned: true }))).toMatchObject({ names: ['z'] });
    expect(found(node('a'), node('z', {}, { labels, isAbsent: true, isReady: false }))).toMatchObject({ names: ['z'] });
    const removed = { self: 'b', nodes: [node('a'), node('b')], peers: [], removed: ['z'] };
    expect(turnOf(RELEASE, removed, order(spare))).toMatchObject({ kind: 'before', node: { name: 'a' } });
  });

  it('hold nobody where a person lifted the pause of the one that went back, or it has a later release', () => {
    const back = { phase: 'activated', current: true, rolledBack: true } as const;
    expect(found(node('z', back, { labels }))).toMatchObject({ kind: 'failed' });
    expect(found(node('z', { ...back, back: true }, { labels }))).toMatchObject({ kind: 'go' });
    expect(found({ ...node('z', {}, { labels }), status: later('4.13.8') })).toMatchObject({ kind: 'go' });
  });
});

describe('nodes that are unavailable', () => {
  it.each<[string, FleetNode, string]>([
    ['not Ready', node('z', {}, ILL), 'unavailable z: not-ready'],
    ['silent', node('z', {}, { isSilent: true }), 'unavailable z: silent'],
    ['cordoned after its activation', node('z', PROVEN, { isCordoned: true }), 'unavailable z: cordoned'],
    ['under way', node('z', { begun: true }), 'before z'],
    ['under way with an earlier release', busy(node('z')), 'before z'],
    ['cordoned by the hook of an earlier release', busy(node('z', {}, { isCordoned: true })), 'before z'],
    ['with tags that moved only', node('z', { ...DONE, runs: false }), 'before z'],
    ['cordoned before', node('z', {}, { isCordoned: true }), 'go'],
    ['silent for fleet.absent', node('z', {}, { isAbsent: true, isReady: false }), 'go'],
    ['silent, and has proven it', node('z', PROVEN, { isAbsent: true, isReady: false }), 'go'],
    ['busy with a later release', { ...node('z', {}, ILL), status: later('4.13.8') }, 'unavailable z: not-ready'],
  ])('hold the others, whether they have begun or not: %s', (_what, one, expected) => {
    expect(turn('b', [one])).toBe(expected);
    expect(turn('b', [one], { maxUnavailable: [2] })).toBe('go');
  });

  it('are named', () => {
    const found = turnOf(RELEASE, { self: 'b', nodes: [node('a', {}, { isCordoned: true }), node('b')], peers: [] });
    expect(found).toMatchObject({ kind: 'go', absent: [], out: ['a'] });
  });

  it('leave no slot for one more', () => {
    const nodes = [node('y', {}, ILL), node('z', {}, ILL)];
    expect(turn('b', nodes, { maxUnavailable: [3] })).toBe('go');
    expect(turn('b', [...nodes, node('x', { begun: true })], { maxUnavailable: [3] })).toMatch(/^(unavailable|before)/);
  });
});

function withoutReport({ status: _, ...node }: FleetNode): FleetNode {
  return node;
}

/** Its activation of an earlier release has begun. */
function busy(one: FleetNode): FleetNode {
  const earlier = { name: 'ocp', version: '4.13.6', bundle: 'c'.repeat(16), phase: 'ready', begun: true } as const;
  return { ...one, status: { version: 1, releases: [...(one.status?.releases ?? []), earlier] } };
}

function later(version: string): NonNullable<FleetNode['status']> {
  return { version: 1, releases: [{ name: 'ocp', version, bundle: 'b'.repeat(16), phase: 'proven', current: true }] };
}

describe('the control plane', () => {
  const labels = { 'node-role.kubernetes.io/control-plane': '' };
  const plane = (name: string, release: Partial<ReleaseStatus> = {}, of: Partial<Of> = {}) =>
    node(name, release, { labels, ...of });
  const upgrade = { self: plane('b') };
  const wide = { maxUnavailable: [9] };

  it.each<[string, FleetNode, string]>([
    ['not Ready', plane('c', {}, ILL), 'unavailable c: not-ready'],
    [
      'not Ready, without stickpin',
      withoutReport(plane('c', {}, { ...ILL, isAbsent: true })),
      'unavailable c: not-ready',
    ],
    ['silent for however long', plane('c', {}, { isAbsent: true }), 'unavailable c: silent'],
    ['cordoned', plane('c', {}, { isCordoned: true }), 'unavailable c: cordoned'],
    ['under way', plane('c', { begun: true }), 'before c'],
    ['under way with an earlier release', busy(plane('c')), 'before c'],
  ])('loses no second node, however many may be unavailable: %s', (_what, one, expected) => {
    expect(turn('b', [one], wide, upgrade)).toBe(expected);
    expect(turn('b', [one, node('z')], wide, { ...upgrade, self: plane('b', {}, ILL) })).toBe(expected);
  });

  it('takes no slot of the workers with a node that never ran stickpin', () => {
    const dead = withoutReport(plane('c', {}, { ...ILL, isAbsent: true }));
    expect(turn('b', [dead])).toBe('go');
    expect(turn('b', [plane('c', PROVEN, ILL)])).toBe('unavailable c: not-ready');
  });

  it('is not held by workers beyond the usual', () => {
    expect(turn('b', [node('c', {}, ILL)], wide, upgrade)).toBe('go');
  });
});

describe('a node that is not Ready itself', () => {
  const self = node('b', {}, ILL);

  it('goes while no other one is under way, since it may need the release', () => {
    expect(turn('b', [node('a'), node('c', {}, ILL)], {}, { self })).toBe('go');
    expect(turn('a', [self])).toBe('unavailable b: not-ready');
    expect(turn('c', [node('a'), self], {}, { self: node('c', {}, ILL) })).toBe('before b');
    expect(turn('b', [node('a', { begun: true })], {}, { self })).toBe('before a');
    expect(turn('b', [node('c', DONE)], { settleMs: MINUTE }, { self })).toBe(`settle c ${MINUTE}`);
  });

  it('goes in the usual order where no node is Ready', () => {
    const all = [node('a', {}, ILL), node('c', {}, ILL)];
    expect(turn('b', all, {}, { self })).toBe('before a');
    expect(turn('a', [self, node('c', {}, ILL)], {}, { self: node('a', {}, ILL) })).toBe('go');
    const first = [node('a', DONE, ILL), node('c', {}, ILL)];
    const sightings = seen([...first, self], MINUTE);
    expect(turn('b', first, { settleMs: MINUTE }, { self, sightings })).toBe('go');
  });

  it('comes at a first install after one of its control plane, and at an upgrade only with a person', () => {
    const labels = { 'node-role.kubernetes.io/control-plane': '' };
    const own = { self: node('b', {}, { labels, ...ILL }) };
    const others = [node('a', PROVEN, { labels }), node('c', {}, { labels, ...ILL })];
    expect(turn('b', others, {}, { ...own, ...FIRST, sightings: seen(others, MINUTE) })).toBe('go');
    expect(turn('b', others, {}, own)).toBe('unavailable c: not-ready');
  });
});
