import { describe, expect, it } from 'vitest';
import type { FleetNode } from '../../../../src/domain/fleet/fleet-view.ts';
import type { ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { turnOf } from '../../../../src/domain/fleet/turn.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';

const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  scheme: undefined,
};
const SELF: FleetNode = { name: 'worker-2', isAbsent: false };

function node(name: string, release?: Partial<ReleaseStatus>, over: Partial<FleetNode> = {}): FleetNode {
  const own = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'ready' as const };
  return { name, isAbsent: false, status: { version: 1, releases: release ? [{ ...own, ...release }] : [] }, ...over };
}

const turn = (...nodes: readonly FleetNode[]) =>
  turnOf(RELEASE, { self: 'worker-2', nodes: [...nodes, SELF], peers: [] });

describe('the order of an activation in a cluster', () => {
  it('lets a node go that knows of no other', () => {
    expect(turn()).toEqual({ kind: 'go', absent: [] });
  });

  it.each(['ready', 'activated', 'active', 'proven', 'superseded'] as const)(
    'lets it go when a later node is %s',
    (phase) => expect(turn(node('worker-3', { phase }))).toEqual({ kind: 'go', absent: [] }),
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
    });
  });

  it('does not know whether a node has the release that could not tell all', () => {
    const cut = { name: 'worker-3', isAbsent: false, status: { version: 1 as const, releases: [], more: 3 } };
    expect(turn(cut)).toEqual({ kind: 'not-ready', nodes: [{ name: 'worker-3', isUnknown: true }], absent: [] });
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
    ['went back', { phase: 'activated', current: false }],
  ])('waits for the node before it that %s', (_what, release) => {
    expect(turn(node('worker-1', release), node('worker-3'.replace('3', '1a'), release))).toMatchObject({
      kind: 'before',
      node: { name: 'worker-1' },
    });
  });

  it.each<[string, Partial<ReleaseStatus>]>([
    ['has activated it, where no container shows more', { phase: 'activated', current: true }],
    ['runs from it', { phase: 'active', current: true, runs: true }],
    ['has gone through it', { phase: 'superseded', current: false }],
  ])('goes after the node before it %s', (_what, release) => {
    expect(turn(node('worker-1', release))).toEqual({ kind: 'go', absent: [] });
  });

  it('does not wait for a node that has a later release of the stream', () => {
    const later = node('worker-1', { version: '4.14.0', bundle: 'c'.repeat(16), phase: 'proven', current: true });
    expect(turn(later)).toEqual({ kind: 'go', absent: [] });
    const earlier = node('worker-1', { version: '4.13.6', bundle: 'c'.repeat(16), phase: 'proven', current: true });
    expect(turn(earlier)).toMatchObject({ kind: 'not-ready' });
  });

  it('does not wait for a node that retired the release for a later one', () => {
    const releases = [
      { name: 'ocp', version: '4.14.0', bundle: 'c'.repeat(16), phase: 'proven', current: true } as const,
      { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), phase: 'retired' } as const,
    ];
    const past = { name: 'worker-1', isAbsent: false, status: { version: 1 as const, releases } };
    expect(turn(past)).toEqual({ kind: 'go', absent: [] });
  });

  it('leaves out nodes that are absent, and names them', () => {
    const gone = [node('worker-9', undefined, { isAbsent: true }), node('worker-0', undefined, { isAbsent: true })];
    expect(turn(...gone)).toEqual({ kind: 'go', absent: ['worker-0', 'worker-9'] });
  });

  it('has exactly one node whose turn it is, whatever all others have activated', () => {
    const names = ['worker-1', 'worker-2', 'worker-3', 'worker-4'];
    for (let activated = 0; activated < names.length; activated += 1) {
      const nodes = names.map((name, at) =>
        node(name, { phase: at < activated ? 'activated' : 'ready', current: true }),
      );
      const going = names.filter(
        (self, at) => at >= activated && turnOf(RELEASE, { self, nodes, peers: [] }).kind === 'go',
      );
      expect(going).toEqual([names[activated]]);
    }
  });
});
