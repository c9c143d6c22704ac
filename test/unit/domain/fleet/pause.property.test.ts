import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode } from '../../../../src/domain/fleet/node-status.ts';
import { heardPauses, newPause, type Pause, pauseOf } from '../../../../src/domain/fleet/pause.ts';
import { turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { BY_NAME } from '../../../../src/domain/model/roll-out-order.ts';
import { NOON } from '../../../support/daemon/scenario.ts';

const MINUTE = 60_000;
const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  scheme: undefined,
};

interface Node {
  readonly name: string;
  isDone: boolean;
  pauses: readonly Pause[];
  /** What it has heard of each node. */
  readonly heard: Map<string, { readonly isDone: boolean; readonly pauses: readonly Pause[] }>;
}

type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

const step = fc.record({
  at: fc.nat(100),
  hears: fc.array(fc.nat(100), { maxLength: 3 }),
  does: fc.constantFrom('pause', 'lift', 'lose', 'act'),
  minutes: fc.integer({ min: 0, max: 20 }),
  forMinutes: fc.integer({ min: 2, max: 120 }),
});
const moves = fc.array(step, { maxLength: 60 });

function viewOf(self: Node, nodes: readonly Node[]) {
  const seen = nodes.map(({ name }): FleetNode => {
    const { isDone = false, pauses = [] } = name === self.name ? self : (self.heard.get(name) ?? {});
    const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16) };
    const phase = isDone ? ({ phase: 'proven', current: true, runs: true } as const) : ({ phase: 'ready' } as const);
    return { name, isAbsent: false, status: { version: 1, releases: [{ ...release, ...phase }], pauses } };
  });
  return { self: self.name, nodes: seen, peers: [] };
}

const clockAt = (now: number) => ({ now, clockSynchronised: true });
const hear = (to: Node, from: Node) => to.heard.set(from.name, { isDone: from.isDone, pauses: from.pauses });

/** A round of one node: it takes what it has heard, and activates if nothing holds it. */
function round(self: Node, nodes: readonly Node[], now: number): void {
  const view = viewOf(self, nodes);
  self.pauses = heardPauses(self.pauses, view, clockAt(now));
  if (self.isDone || pauseOf(RELEASE, self.pauses, clockAt(now)) !== undefined) return;
  self.isDone = turnOf(RELEASE, view, { ...BY_NAME, settleMs: 0 }).kind === 'go';
}

function run(count: number, steps: readonly Step[]) {
  const nodes = Array.from(
    { length: count },
    (_, at): Node => ({ name: `n${at}`, isDone: false, pauses: [], heard: new Map() }),
  );
  let now = NOON;
  for (const { at, hears, does, minutes, forMinutes } of steps) {
    const self = nodes[at % count];
    if (self === undefined) continue;
    now += minutes * MINUTE;
    for (const one of hears) {
      const from = nodes[one % count];
      if (from !== undefined && from !== self) hear(self, from);
    }
    const said = { name: 'ocp', node: self.name, by: 'uid 0', why: 'x', atMs: now, forMs: forMinutes * MINUTE };
    if (does === 'pause') self.pauses = [...self.pauses, newPause(said)];
    if (does === 'lift') {
      const lifted = { node: self.name, by: 'uid 0' };
      self.pauses = self.pauses.map((one) => ({ ...one, lifted: one.lifted ?? lifted }));
    }
    if (does === 'lose') self.pauses = [];
    const before = self.isDone;
    round(self, nodes, now);
    const holding = self.pauses.filter(({ lifted, until }) => lifted === undefined && Date.parse(until) > now);
    if (!before && self.isDone) expect(holding).toEqual([]);
  }
  return { nodes, now };
}

describe('pauses of nodes that hear each other late', () => {
  it('let no node begin that has heard of one, until it is lifted or ends', () => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 6 }), moves, (count, steps) => void run(count, steps)));
  });

  it('are no dead end: all nodes are done once every pause has ended', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), moves, (count, steps) => {
        const { nodes, now } = run(count, steps);
        for (let again = 0; again < 2 * count; again += 1) {
          for (const self of nodes) {
            for (const other of nodes) if (other !== self) hear(self, other);
            round(self, nodes, now + 121 * MINUTE);
          }
        }
        expect(nodes.every(({ isDone }) => isDone)).toBe(true);
        expect(nodes.flatMap(({ pauses }) => pauses)).toEqual([]);
      }),
    );
  });

  it('end on all nodes with a lift on one, once all have heard of it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 6 }), fc.nat(100), fc.nat(100), (count, first, second) => {
        const lift: Step = { at: second, hears: [first], does: 'lift', minutes: 0, forMinutes: 100 };
        const pause: Step = { ...lift, at: first, hears: [], does: 'pause' };
        const { nodes, now } = run(count, [pause, { ...lift, does: 'act' }, lift]);
        for (let again = 0; again < 2 * count; again += 1) {
          for (const self of nodes) {
            for (const other of nodes) if (other !== self) hear(self, other);
            round(self, nodes, now);
          }
        }
        expect(nodes.every(({ isDone }) => isDone)).toBe(true);
      }),
    );
  });
});
