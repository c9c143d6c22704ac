import { describe, expect, it } from 'vitest';
import { type FleetNode, parseNodeStatus, type ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { nodesLoading } from '../../../../src/domain/fleet/turn.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { BY_NAME } from '../../../../src/domain/model/roll-out-order.ts';
import { nodeStatusOf } from '../../../../src/fleet/publish/node-status.ts';
import type { OwnBundle } from '../../../../src/fleet/publish/own-report.ts';
import { ownBundle, ownReport } from '../../../support/kubernetes/own-report.ts';

const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  scheme: undefined,
};
const SELF: FleetNode = { name: 'worker-2', isAbsent: false };

function node(name: string, release?: Partial<ReleaseStatus>, over: Partial<FleetNode> = {}): FleetNode {
  const own = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' as const };
  return { name, isAbsent: false, status: { version: 1, releases: release ? [{ ...own, ...release }] : [] }, ...over };
}

/** A node whose daemon reports these releases: what it tells the others of them. */
function reporting(name: string, ...bundles: readonly Partial<OwnBundle>[]): FleetNode {
  const all = bundles.map((over) => ownBundle({ bundleId: RELEASE.bundleId, ...over }));
  return { name, isAbsent: false, status: nodeStatusOf(ownReport(all)) };
}

const OLD = { bundleId: digestFromHex('b'.repeat(64)), version: '4.13.6', phase: 'proven' } as const;
/** The release of the stream that a node has instead. */
const LATER = { bundleId: digestFromHex('c'.repeat(64)), current: true } as const;

const ready = (node: FleetNode): FleetNode => ({ ...node, facts: { labels: {}, isReady: true } });
const turnIn = (self: string, nodes: readonly FleetNode[], release = {}) =>
  turnOf({ ...RELEASE, ...release }, { self, nodes: nodes.map(ready), peers: [] }, { ...BY_NAME, settleMs: 0 });
const turn = (...nodes: readonly FleetNode[]) => {
  const { line: _, ...verdict } = turnIn('worker-2', [...nodes, SELF]);
  return verdict;
};

describe('the nodes that need the stick', () => {
  const loading = (isLong: boolean, ...nodes: readonly FleetNode[]) =>
    nodesLoading(RELEASE, { self: 'worker-2', nodes: [...nodes, SELF], peers: [] }, isLong);
  const told = (bundleId?: string, path = 'stickpin/ocp', code = 'bundle/unknown-key') => {
    const reason = { code, message: 'signature by unknown key' };
    return nodeStatusOf({
      ...ownReport([]),
      rejected: [{ medium: 'worker-2', path, reason, ...(bundleId && { bundleId }) }],
    });
  };

  it('are those that have not loaded it, also before they begin', () => {
    expect(loading(false, node('worker-1'), node('worker-3', { phase: 'preloading' }))).toEqual({ loading: 2, all: 3 });
  });

  it('are not those that have not begun for as long as silent nodes are waited for', () => {
    expect(loading(true, node('worker-1'), node('worker-3', { phase: 'preloading' }))).toEqual({ loading: 1, all: 3 });
    expect(loading(true, node('worker-1'), { name: 'worker-3', isAbsent: false })).toBeUndefined();
  });

  it('are none while a node before this one by name gives it, so that of several sticks one stays', () => {
    const offered = { ...RELEASE, sequence: 7, isWhole: true, revision: 'r' };
    const beside = (name: string, known = name) =>
      nodesLoading(
        RELEASE,
        {
          self: 'worker-2',
          nodes: [node(known), node('worker-4'), SELF],
          peers: [{ name, address: '10.0.0.1:9777', bundles: [offered] }],
        },
        false,
      );
    expect(beside('worker-1')).toBeUndefined();
    expect(beside('worker-3')).toEqual({ loading: 2, all: 3 });
    expect(beside('10.0.0.1', 'worker-1')).toEqual({ loading: 2, all: 3 });
  });

  it('are those that ask for it, or could not read it for a while, however long that takes', () => {
    const wants = [{ name: RELEASE.name, version: RELEASE.version }];
    const asking = { ...node('worker-3'), status: { version: 1, releases: [], wants } } as const;
    expect(loading(true, asking)).toEqual({ loading: 1, all: 2 });
    const busy = { name: 'worker-3', isAbsent: false, status: told(RELEASE.bundleId, undefined, 'media/read') };
    expect(loading(false, busy)).toEqual({ loading: 1, all: 2 });
  });

  it.each([
    ['by its id', told(RELEASE.bundleId)],
    ['at the path of another node', told(undefined, `ocp@4.13.7 ${RELEASE.bundleId}`)],
  ])('are not those that reject it %s', (_where, status) => {
    expect(parseNodeStatus(JSON.parse(JSON.stringify(status)))).toEqual(status);
    expect(loading(false, { name: 'worker-1', isAbsent: false, status })).toBeUndefined();
  });

  it('are those that reject another bundle, or this one on a stick beside one that they take', () => {
    const other = { name: 'worker-1', isAbsent: false, status: told(LATER.bundleId) };
    expect(loading(false, other)).toEqual({ loading: 1, all: 2 });
  });
});

describe('the order of an activation in a cluster', () => {
  it('lets a node go that knows of no other', () => {
    expect(turn()).toEqual({ kind: 'go', absent: [], out: [] });
  });

  it.each(['ready', 'activated', 'active', 'proven', 'superseded'] as const)(
    'lets it go when a later node is %s',
    (phase) => expect(turn(node('worker-3', { phase }))).toEqual({ kind: 'go', absent: [], out: [] }),
  );

  it.each(['detected', 'rejected', 'held', 'preloading', 'retired'] as const)(
    'waits for a later node that is %s',
    (phase) => {
      expect(turn(node('worker-3', { phase }))).toMatchObject({ kind: 'not-ready', nodes: [{ name: 'worker-3' }] });
    },
  );

  it('waits for a node that lacks the release, and for one that never told anything', () => {
    expect(turn(node('worker-3'), { name: 'worker-4', isAbsent: false })).toEqual({
      kind: 'not-ready',
      nodes: [{ name: 'worker-3' }, { name: 'worker-4' }],
      absent: [],
      out: [],
    });
  });

  it('does not know whether a node has the release that could not tell all', () => {
    const cut = { name: 'worker-3', isAbsent: false, status: { version: 1 as const, releases: [], more: 3 } };
    expect(turn(cut)).toEqual({
      kind: 'not-ready',
      nodes: [{ name: 'worker-3', isUnknown: true }],
      absent: [],
      out: [],
    });
  });

  it('waits for a node that lost images of the release, or their pins', () => {
    expect(turn(node('worker-3', { phase: 'proven', incomplete: true }))).toMatchObject({ kind: 'not-ready' });
  });

  it('waits for a node that has another bundle of the same version', () => {
    expect(turn(node('worker-3', { bundle: 'b'.repeat(16) }))).toMatchObject({ kind: 'not-ready' });
  });

  it.each<[string, Partial<ReleaseStatus>]>([
    ['is only ready', { phase: 'ready' }],
    ['runs from an older release', { phase: 'activated', current: true, runs: false }],
    ['has another release in force', { phase: 'activated' }],
    ['has another release in force, and proved it before', { phase: 'proven' }],
    ['has another release in force, and proved that one too', { phase: 'superseded' }],
  ])('waits for the node before it that %s', (_what, release) => {
    expect(turn(node('worker-1', release), node('worker-3'.replace('3', '1a'), release))).toMatchObject({
      kind: 'before',
      node: { name: 'worker-1' },
    });
  });

  it.each<[string, Partial<ReleaseStatus>]>([
    ['has activated it, where no container shows more', { phase: 'activated', current: true }],
    ['runs from it', { phase: 'active', current: true, runs: true }],
    ['has proven it', { phase: 'proven', current: true, runs: true }],
  ])('goes after the node before it %s', (_what, release) => {
    expect(turn(node('worker-1', release))).toEqual({ kind: 'go', absent: [], out: [] });
  });

  it.each<[string, readonly Partial<OwnBundle>[]]>([
    ['goes back', [{ phase: 'activated', current: true, runs: false, rolledBack: true }, OLD]],
    [
      'went back',
      [
        { phase: 'activated', current: false, rolledBack: true },
        { ...OLD, current: true, runs: true },
      ],
    ],
    [
      'went back once it was proven',
      [
        { phase: 'proven', current: false, rolledBack: true },
        { ...OLD, current: true },
      ],
    ],
  ])('stays where another node %s', (_what, bundles) => {
    for (const name of ['worker-1', 'worker-3']) {
      const nodes = [reporting(name, ...bundles), reporting('worker-4', { phase: 'preloading' })];
      expect(turn(...nodes)).toMatchObject({ kind: 'failed', why: 'rolled-back', node: { name } });
    }
  });

  it('does not take the phase for what is in force while something else explains it', () => {
    const reason = { code: 'runtime/unreachable', message: 'crio does not answer' };
    const back = [{ phase: 'proven', current: false, reason } as const, { ...OLD, current: true }];
    expect(turn(reporting('worker-1', ...back))).toMatchObject({ kind: 'before', node: { name: 'worker-1' } });
  });

  it('goes on after a node that went back from it and has a later release by now', () => {
    const later = { ...LATER, version: '4.13.8', phase: 'activated' } as const;
    const back = { phase: 'activated', current: false, rolledBack: true } as const;
    expect(turn(reporting('worker-1', back, later))).toEqual({ kind: 'go', absent: [], out: [] });
  });

  it('does not wait for a node that has a later release of the stream', () => {
    const later = node('worker-1', { version: '4.14.0', bundle: 'c'.repeat(16), phase: 'proven', current: true });
    expect(turn(later)).toEqual({ kind: 'go', absent: [], out: [] });
    const earlier = node('worker-1', { version: '4.13.6', bundle: 'c'.repeat(16), phase: 'proven', current: true });
    expect(turn(earlier)).toMatchObject({ kind: 'not-ready' });
  });

  it('waits for all nodes with a downgrade: each of them has a later release before', () => {
    const later = { ...LATER, version: '4.14.0', phase: 'proven' } as const;
    const names = ['worker-1', 'worker-2', 'worker-3'];
    const going = (first: Partial<OwnBundle>, last: Partial<OwnBundle>) => {
      const nodes = [
        reporting('worker-1', first, { ...later, current: first.current !== true }),
        reporting('worker-2', { phase: 'ready' }, later),
        reporting('worker-3', last, later),
      ];
      return names.map((self) => turnIn(self, nodes, { replaces: '4.14.0' }).kind);
    };
    expect(going({ phase: 'ready' }, { phase: 'preloading' })).toEqual(['not-ready', 'not-ready', 'before']);
    expect(going({ phase: 'ready' }, { phase: 'ready' })).toEqual(['go', 'before', 'before']);
    expect(going({ phase: 'activated', current: true }, { phase: 'ready' })).toEqual(['go', 'go', 'before']);
  });

  describe('with nodes of another architecture', () => {
    const arm = (name: string, ...bundles: readonly Partial<OwnBundle>[]): FleetNode => {
      const all = bundles.map((over) => ownBundle({ bundleId: digestFromHex('e'.repeat(64)), ...over }));
      return { name, isAbsent: false, status: nodeStatusOf(ownReport(all, { arch: 'arm64' })) };
    };

    it('does not wait for one that lacks the release: its bundle is not made for it', () => {
      expect(turn(arm('arm-1'), node('worker-3', {}))).toEqual({ kind: 'go', absent: [], out: [] });
      expect(turn(arm('arm-1', OLD))).toEqual({ kind: 'go', absent: [], out: [] });
      expect(turn(arm('arm-1', { phase: 'retired' }))).toEqual({ kind: 'go', absent: [], out: [] });
    });

    it('waits for one that has the same release in a bundle of its own', () => {
      expect(turn(arm('arm-1', { phase: 'preloading' }))).toMatchObject({ kind: 'not-ready' });
      expect(turn(arm('arm-1', { phase: 'ready' }))).toMatchObject({ kind: 'before', node: { name: 'arm-1' } });
      expect(turn(arm('arm-1', { phase: 'activated', current: true }))).toEqual({ kind: 'go', absent: [], out: [] });
    });

    it('waits for one of the same architecture, and for one that tells none', () => {
      const same = { name: 'worker-1', isAbsent: false, status: nodeStatusOf(ownReport([], { arch: 'amd64' })) };
      expect(turn(same)).toMatchObject({ kind: 'not-ready' });
      expect(turn(node('worker-1'))).toMatchObject({ kind: 'not-ready' });
    });
  });

  it('does not wait for a node that retired the release for a later one', () => {
    const releases = [
      { name: 'ocp', version: '4.14.0', bundle: 'c'.repeat(16), phase: 'proven', current: true } as const,
      { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'retired' } as const,
    ];
    const past = { name: 'worker-1', isAbsent: false, status: { version: 1 as const, releases } };
    expect(turn(past)).toEqual({ kind: 'go', absent: [], out: [] });
  });

  it('leaves out nodes that are absent, and names them', () => {
    const gone = [node('worker-9', undefined, { isAbsent: true }), node('worker-0', undefined, { isAbsent: true })];
    expect(turn(...gone)).toEqual({ kind: 'go', absent: ['worker-0', 'worker-9'], out: [] });
  });

  it('has exactly one node whose turn it is, whatever all others have activated', () => {
    const names = ['worker-1', 'worker-2', 'worker-3', 'worker-4'];
    for (let activated = 0; activated < names.length; activated += 1) {
      const nodes = names.map((name, at) =>
        reporting(name, at < activated ? { phase: 'activated', current: true } : { phase: 'ready' }),
      );
      const going = names.filter((self, at) => at >= activated && turnIn(self, nodes).kind === 'go');
      expect(going).toEqual([names[activated]]);
    }
  });
});
