import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode, ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { needsLabels, placeOf, type RollOutOrder, stricterOrder } from '../../../../src/domain/model/roll-out-order.ts';

const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  scheme: undefined,
};

const labels = fc.record({
  zone: fc.constantFrom('a', 'b', 'c'),
  isControlPlane: fc.boolean(),
  isSpare: fc.boolean(),
});
const orders: fc.Arbitrary<RollOutOrder> = fc.record({
  controlPlane: fc.constantFrom('first', 'last', 'with'),
  groups: fc.subarray(['zone=a', 'zone=b', '!spare']),
  canary: fc.option(
    fc.record({ nodes: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constant('spare')), soakMs: fc.nat(5) }),
    { nil: undefined },
  ),
  maxUnavailable: fc.tuple(fc.constantFrom(1, 2, 5, '30%' as const, '100%' as const)),
});
/** Steps of the simulation: which node acts, and whose news it has heard by then. */
const steps = fc.array(fc.record({ at: fc.nat(1_000), hears: fc.array(fc.nat(1_000), { maxLength: 4 }) }), {
  maxLength: 120,
});

type State = 'ready' | 'moving' | 'done' | 'soaked';

interface Node {
  readonly name: string;
  readonly place: number;
  readonly group: number;
  readonly isCanary: boolean;
  state: State;
  /** What it has heard of each node. */
  readonly heard: Map<string, State>;
}

const STATUS: Readonly<Record<State, Partial<ReleaseStatus>>> = {
  ready: { phase: 'ready' },
  moving: { phase: 'activated', current: true, runs: false },
  done: { phase: 'active', current: true, runs: true },
  soaked: { phase: 'active', current: true, runs: true, soaked: true },
};
const NEXT: Readonly<Record<State, State>> = { ready: 'moving', moving: 'done', done: 'soaked', soaked: 'soaked' };

function cluster(order: RollOutOrder, all: readonly { zone: string; isControlPlane: boolean; isSpare: boolean }[]) {
  const placed = all.map(({ zone, isControlPlane, isSpare }, at) => {
    const own = {
      zone,
      ...(isControlPlane && { 'node-role.kubernetes.io/control-plane': '' }),
      ...(isSpare && { spare: '' }),
    };
    return { name: `n${String(at).padStart(2, '0')}`, place: needsLabels(order) ? placeOf(order, own) : 1 };
  });
  const line = placed.toSorted((a, b) => a.place - b.place || (a.name < b.name ? -1 : 1));
  return line.map(({ name, place }, at): Node => {
    const isAmongFirst = typeof order.canary?.nodes === 'number' && at < order.canary.nodes;
    const isCanary = isAmongFirst || (typeof order.canary?.nodes === 'string' && place === 0);
    const heard = new Map(placed.map((one) => [one.name, 'ready' as const]));
    return { name, place, group: isAmongFirst ? -1 : place, isCanary, state: 'ready', heard };
  });
}

function isGoing(self: Node, nodes: readonly Node[], order: RollOutOrder): boolean {
  const seen = nodes.map(({ name, place }): FleetNode => {
    const status = STATUS[self.heard.get(name) ?? 'ready'];
    const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16), place, ...status } as ReleaseStatus;
    return { name, isAbsent: false, status: { version: 1, releases: [release] } };
  });
  return turnOf(RELEASE, { self: self.name, nodes: seen, peers: [] }, order, { place: self.place }).kind === 'go';
}

/** One node acts: it activates if it is its turn, or its activation goes on. */
function act(self: Node, nodes: readonly Node[], order: RollOutOrder): void {
  if (self.state === 'ready' && !isGoing(self, nodes, order)) return;
  self.state = NEXT[self.state];
  self.heard.set(self.name, self.state);
}

const tell = (to: Node, from: Node) => to.heard.set(from.name, from.state);
const hasEnded = ({ state, isCanary }: Node) => state === 'soaked' || (state === 'done' && !isCanary);
const clusters = fc.tuple(orders, fc.array(labels, { minLength: 1, maxLength: 10 }), steps);

describe('a roll-out over nodes that hear each other late', () => {
  it('has never two groups at once, nor more nodes than it may, and begins behind soaked canaries', () => {
    fc.assert(
      fc.property(clusters, ([order, all, moves]) => {
        const nodes = cluster(order, all);
        for (const { at, hears } of moves) {
          const self = nodes[at % nodes.length];
          if (self === undefined) continue;
          for (const one of hears) tell(self, nodes[one % nodes.length] ?? self);
          act(self, nodes, order);
          const begun = nodes.filter(({ state }) => state !== 'ready');
          const moving = nodes.filter(({ state }) => state === 'moving');
          const latest = Math.max(...begun.map(({ group }) => group));
          expect(nodes.filter(({ group }) => group < latest).every(hasEnded)).toBe(true);
          expect(new Set(moving.map(({ group }) => group)).size).toBeLessThanOrEqual(1);
          const size = nodes.filter(({ group }) => group === moving[0]?.group).length;
          const [most = 1] = order.maxUnavailable;
          const limit =
            typeof most === 'number' ? most : Math.max(1, Math.floor((size * Number(most.slice(0, -1))) / 100));
          expect(moving.length).toBeLessThanOrEqual(limit);
        }
      }),
    );
  });

  it('comes to its end from everywhere once all news arrive', () => {
    fc.assert(
      fc.property(clusters, ([order, all, moves]) => {
        const nodes = cluster(order, all);
        for (const { at, hears } of moves) {
          const self = nodes[at % nodes.length];
          if (self === undefined) continue;
          for (const one of hears) tell(self, nodes[one % nodes.length] ?? self);
          act(self, nodes, order);
        }
        for (let round = 0; round < 4 * nodes.length; round += 1) {
          for (const self of nodes) {
            for (const other of nodes) tell(self, other);
            act(self, nodes, order);
          }
        }
        expect(nodes.map(({ state }) => state)).toEqual(nodes.map(() => 'soaked'));
      }),
    );
  });

  it('never goes earlier on a node for the settings of that node', () => {
    const heard = fc.array(fc.constantFrom<State>('ready', 'moving', 'done', 'soaked'), {
      minLength: 10,
      maxLength: 10,
    });
    fc.assert(
      fc.property(clusters, orders, heard, ([signed, all], own, states) => {
        const nodes = cluster(signed, all);
        for (const self of nodes) {
          for (const [at, { name }] of nodes.entries()) self.heard.set(name, states[at] ?? 'ready');
          const both = stricterOrder(signed, own);
          if (isGoing(self, nodes, both)) expect(isGoing(self, nodes, signed)).toBe(true);
        }
      }),
    );
  });
});

describe('nodes that hear nothing of each other any more', () => {
  it('overlap by at most one group for each part of the cluster, each within its own limit', () => {
    fc.assert(
      fc.property(orders, fc.array(labels, { minLength: 2, maxLength: 8 }), fc.nat(255), (order, all, mask) => {
        const nodes = cluster(order, all);
        const parts = [0, 1].map((side) => nodes.filter((_, at) => ((mask >> at) & 1) === side));
        for (const part of parts) {
          // After `fleet.absent` each part leaves the other one out.
          for (let round = 0; round < 4 * part.length; round += 1) {
            for (const self of part) {
              for (const other of part) tell(self, other);
              act(self, part, order);
              const moving = part.filter(({ state }) => state === 'moving');
              const places = new Set(moving.map(({ place }) => place));
              expect(places.size === 1 || moving.length <= 1 || order.canary !== undefined).toBe(true);
            }
          }
          expect(part.every(({ state }) => state === 'soaked')).toBe(true);
        }
      }),
    );
  });
});
