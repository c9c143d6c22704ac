import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FleetNode, FleetView } from '../../../../src/domain/fleet/node-status.ts';
import {
  contentOf,
  endOf,
  heardPauses,
  isFirstHand,
  isPassedOn,
  mayLift,
  newPause,
  type Pause,
  pauseOf,
  type SharedPause,
} from '../../../../src/domain/fleet/pause.ts';
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

interface Report {
  readonly isDone: boolean;
  readonly pauses: readonly SharedPause[];
}

interface Node {
  readonly name: string;
  isDone: boolean;
  pauses: readonly Pause[];
  /** What it has heard of each node. */
  readonly heard: Map<string, Report>;
}

/** Of the control plane, and no liar. */
const CONTROL_PLANE = 'n0';
const LIAR = 'n1';

/** A lie about a pause that somebody said, or about one that nobody did. */
const lie = fc.record({
  of: fc.nat(100),
  id: fc.constantFrom(undefined, 'a'.repeat(12)),
  node: fc.constantFrom(undefined, 'n0', LIAR, 'n2', 'n3', 'nobody'),
  by: fc.constantFrom(undefined, 'a rollback', 'uid 7'),
  minutes: fc.constantFrom(undefined, 2, 60, 10_000),
  lifted: fc.constantFrom(undefined, 'n0', LIAR, 'n2', 'n3'),
});

type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

const step = fc.record({
  at: fc.nat(100),
  hears: fc.array(fc.nat(100), { maxLength: 3 }),
  does: fc.constantFrom('pause', 'lift', 'lose', 'act'),
  minutes: fc.integer({ min: 0, max: 20 }),
  forMinutes: fc.integer({ min: 2, max: 120 }),
  lies: fc.array(lie, { maxLength: 12 }),
});
const moves = fc.array(step, { maxLength: 60 });

const labelsOf = (name: string) => (name === CONTROL_PLANE ? { 'node-role.kubernetes.io/control-plane': '' } : {});
const clockAt = (now: number) => ({ now, clockSynchronised: true });

class Model {
  now = NOON;
  readonly nodes: readonly Node[];
  /** All that honest nodes said, by content. */
  readonly said = new Map<string, Pause>();
  /** Content of what was lifted where it may be. */
  readonly lifted = new Set<string>();

  constructor(
    count: number,
    private readonly hasLiar = false,
  ) {
    const names = Array.from({ length: count }, (_, at) => `n${at}`);
    this.nodes = names.map((name) => ({ name, isDone: false, pauses: [], heard: new Map() }));
  }

  get honest(): readonly Node[] {
    return this.nodes.filter(({ name }) => !this.hasLiar || name !== LIAR);
  }

  hear(to: Node, from: Node): void {
    if (this.hasLiar && from.name === LIAR) return;
    const pauses = from.pauses.filter(isPassedOn).map(({ from: _, liftedFrom: __, heard: ___, ...one }) => one);
    to.heard.set(from.name, { isDone: from.isDone, pauses });
  }

  tell(to: Node, lies: Step['lies']): void {
    const known = [...this.said.values()];
    const pauses = lies.map(({ of, id, node, by, minutes, lifted }): SharedPause => {
      const made = newPause({ name: 'ocp', node: LIAR, by: 'uid 6', why: `${of}`, atMs: this.now, forMs: 60 * MINUTE });
      const { from: _, heard: __, liftedFrom: ___, ...one } = known[of % (known.length + 1)] ?? made;
      return {
        ...one,
        id: id ?? one.id,
        node: node ?? one.node,
        by: by ?? one.by,
        until: minutes === undefined ? one.until : new Date(this.now + minutes * MINUTE).toISOString(),
        ...(lifted && { lifted: { node: lifted, by: 'uid 0' } }),
      };
    });
    to.heard.set(LIAR, { isDone: lies.length % 2 === 0, pauses });
  }

  viewOf(self: Node, removed: readonly string[] = []): FleetView {
    const nodes = this.nodes.filter(({ name }) => !removed.includes(name));
    const seen = nodes.map(({ name }): FleetNode => {
      const { isDone = false, pauses = [] } = name === self.name ? self : (self.heard.get(name) ?? {});
      const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16) };
      const phase = isDone ? ({ phase: 'proven', current: true, runs: true } as const) : ({ phase: 'ready' } as const);
      const status = { version: 1 as const, releases: [{ ...release, ...phase }], pauses };
      return { name, isAbsent: false, facts: { labels: labelsOf(name) }, status };
    });
    return { self: self.name, nodes: seen, peers: [], removed };
  }

  /** It takes what it has heard, and activates if nothing holds it. */
  round(self: Node, removed: readonly string[] = []): void {
    const view = this.viewOf(self, removed);
    self.pauses = heardPauses(self.pauses, view, clockAt(this.now));
    if (self.isDone || pauseOf(RELEASE, self.pauses, clockAt(this.now)) !== undefined) return;
    self.isDone = turnOf(RELEASE, view, { ...BY_NAME, settleMs: 0 }).kind === 'go';
  }

  move({ at, hears, does, minutes, forMinutes, lies }: Step): void {
    const self = this.honest[at % this.honest.length];
    if (self === undefined) return;
    this.now += minutes * MINUTE;
    for (const one of hears) {
      const from = this.nodes[one % this.nodes.length];
      if (from !== undefined && from !== self) this.hear(self, from);
    }
    if (this.hasLiar) this.tell(self, lies);
    if (does === 'pause' && self.pauses.filter(({ from }) => from === undefined).length < 8) {
      const asked = { name: 'ocp', node: self.name, by: 'uid 0', why: 'x', atMs: this.now };
      const one = newPause({ ...asked, forMs: forMinutes * MINUTE });
      if (!this.said.has(contentOf(one))) self.pauses = [...self.pauses, one];
      this.said.set(contentOf(one), one);
    }
    if (does === 'lift') {
      const lifted = { node: self.name, by: 'uid 0' };
      const isMine = (one: Pause) => mayLift(one, self.name, labelsOf(self.name));
      for (const one of self.pauses.filter(isMine)) this.lifted.add(contentOf(one));
      self.pauses = self.pauses.map((one) => (isMine(one) ? { ...one, lifted: one.lifted ?? lifted } : one));
    }
    if (does === 'lose') self.pauses = [];
    this.round(self);
  }

  /** Every node hears all the others, again and again. */
  settle(removed: readonly string[] = []): void {
    for (let again = 0; again < 2 * this.nodes.length; again += 1) {
      for (const self of this.honest) {
        for (const other of this.honest) if (other !== self) this.hear(self, other);
        this.round(self, removed);
      }
    }
  }
}

const isInForce = (one: Pause, { now, lifted }: Model) => endOf(one) > now && !lifted.has(contentOf(one));

describe('pauses of nodes that hear each other late', () => {
  it('let no node begin that has heard of one, until it is lifted or ends', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), moves, (count, steps) => {
        const model = new Model(count);
        for (const one of steps) {
          const before = new Set(model.nodes.filter(({ isDone }) => isDone));
          model.move(one);
          const begun = model.nodes.filter((node) => node.isDone && !before.has(node));
          expect(begun.flatMap(({ pauses }) => pauses).filter((each) => isInForce(each, model))).toEqual([]);
        }
      }),
    );
  });

  it('are no dead end: all nodes are done once every pause has ended', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), moves, (count, steps) => {
        const model = new Model(count);
        for (const one of steps) model.move(one);
        model.now += 121 * MINUTE;
        model.settle();
        expect(model.nodes.every(({ isDone }) => isDone)).toBe(true);
        expect(model.nodes.flatMap(({ pauses }) => pauses)).toEqual([]);
      }),
    );
  });

  it('end on all nodes with a lift where it was said or on the control plane, and nowhere else', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 6 }), fc.nat(100), fc.nat(100), (count, first, second) => {
        const model = new Model(count);
        const lift: Step = { at: second, hears: [first], does: 'lift', minutes: 0, forMinutes: 100, lies: [] };
        const pause: Step = { ...lift, at: first, hears: [], does: 'pause' };
        for (const one of [pause, { ...lift, does: 'act' as const }, lift]) model.move(one);
        model.settle();
        const counts = second % count === 0 || first % count === second % count;
        expect(model.nodes.every(({ isDone }) => isDone)).toBe(counts);
      }),
    );
  });
});

describe('pauses with one node that lies, in every field and to each node as it likes', () => {
  const attacked = fc.tuple(fc.integer({ min: 3, max: 5 }), moves);

  it('hold each node that heard an honest one, until the right node lifts it or it ends', () => {
    fc.assert(
      fc.property(attacked, ([count, steps]) => {
        const model = new Model(count, true);
        /** What each node heard of honest nodes, and has not lost. */
        const heard = new Map<Node, Set<string>>();
        for (const one of steps) {
          const before = new Set(model.nodes.filter(({ isDone }) => isDone));
          model.move(one);
          for (const self of model.honest) {
            const sources = [...self.heard].flatMap(([name, { pauses }]) => (name === LIAR ? [] : pauses));
            const isLost = one.does === 'lose' && self === model.honest[one.at % model.honest.length];
            const own = isLost ? [] : [...(heard.get(self) ?? [])];
            const open = sources.filter((each) => each.node !== LIAR && each.lifted === undefined);
            // One that ends within a minute is not taken any more.
            const now = open.filter((each) => endOf(each) > model.now + MINUTE).map(contentOf);
            heard.set(self, new Set([...own, ...now]));
          }
          for (const self of model.honest.filter((node) => node.isDone && !before.has(node))) {
            const holding = [...(heard.get(self) ?? [])].flatMap((key) => model.said.get(key) ?? []);
            expect(holding.filter((each) => isInForce(each, model))).toEqual([]);
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  it('are never lifted in the name of another node, nor by the liar', () => {
    fc.assert(
      fc.property(attacked, ([count, steps]) => {
        const model = new Model(count, true);
        for (const one of steps) {
          model.move(one);
          for (const { pauses } of model.honest) {
            const lifted = pauses.filter((each) => each.lifted !== undefined && model.said.has(contentOf(each)));
            expect(lifted.filter((each) => !model.lifted.has(contentOf(each)))).toEqual([]);
            // A node may lift what was made up in its name.
            const open = pauses.filter((each) => each.node !== LIAR && isFirstHand(each) && each.lifted === undefined);
            expect(open.filter((each) => !model.said.has(contentOf(each)))).toEqual([]);
          }
        }
      }),
    );
  });

  it('are no dead end that a removal of the liar does not end', () => {
    fc.assert(
      fc.property(attacked, ([count, steps]) => {
        const model = new Model(count, true);
        for (const one of steps) model.move(one);
        model.now += 121 * MINUTE;
        model.settle([LIAR]);
        expect(model.honest.every(({ isDone }) => isDone)).toBe(true);
      }),
    );
  });
});
