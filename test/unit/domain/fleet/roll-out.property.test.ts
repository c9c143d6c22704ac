import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TurnRelease } from '../../../../src/domain/fleet/awaited-node.ts';
import type { FleetNode, FleetView, ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { type Turn, turnOf } from '../../../../src/domain/fleet/roll-out.ts';
import { NO_SIGHTINGS, type Sightings, sightingsAfter } from '../../../../src/domain/fleet/sightings.ts';
import { PHASES } from '../../../../src/domain/model/condition.ts';
import { digestFromHex } from '../../../../src/domain/model/digest.ts';
import { placeOf, type RollOutOrder, stricterOrder } from '../../../../src/domain/model/roll-out-order.ts';

const MINUTE = 60_000;
const SETTLE = 2 * MINUTE;
const ROUND = 3 * MINUTE;
const RELEASE = {
  bundleId: digestFromHex('a'.repeat(64)),
  name: 'ocp',
  version: '4.13.7',
  arch: 'amd64',
  scheme: undefined,
  replaces: '4.13.6',
};
const OWN = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16) };

const traits = fc.record({
  zone: fc.constantFrom('a', 'b', 'c'),
  isControlPlane: fc.boolean(),
  isSpare: fc.boolean(),
  /** Before it has the release. */
  isReady: fc.boolean(),
});
type Traits = typeof traits extends fc.Arbitrary<infer One> ? One : never;
/** Somebody has the label of the canaries. */
const withSpare = (all: readonly Traits[], at = 0) => all.map((one, i) => (i === at ? { ...one, isSpare: true } : one));
const orders: fc.Arbitrary<RollOutOrder> = fc.record({
  controlPlane: fc.constantFrom('first', 'last', 'with'),
  groups: fc.subarray(['zone=a', 'zone=b', '!spare']),
  canary: fc.option(
    fc.record({
      nodes: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constant('spare')),
      soakMs: fc.constantFrom(0, 30 * MINUTE),
    }),
    { nil: undefined },
  ),
  maxUnavailable: fc.tuple(fc.constantFrom(1, 2, 5, '30%' as const, '100%' as const)),
  settleMs: fc.constant(SETTLE),
  done: fc.constantFrom('activated', 'proven', undefined),
});
const optionally = <T>(one: fc.Arbitrary<T>) => fc.option(one, { nil: undefined });
/** All that a node reports, or that its kubelet writes into its own Node. Mostly it looks done. */
const mostly = <T>(usual: T, one: fc.Arbitrary<T>) => fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, one);
const anyRelease = fc.record(
  {
    phase: fc.constantFrom(...PHASES.map(({ phase }) => phase)),
    current: fc.boolean(),
    runs: fc.boolean(),
    begun: fc.constant(true as const),
    back: fc.constant(true as const),
    fails: fc.constant(true as const),
    degraded: fc.constant(true as const),
    incomplete: fc.constant(true as const),
    disturbedMs: fc.nat(3),
    rolledBack: fc.constant(true as const),
    reason: fc.constant('x'),
    version: fc.constantFrom('4.13.7', '4.14.0'),
  },
  { requiredKeys: ['phase'] },
);
const lies = fc.record({
  release: mostly<Partial<ReleaseStatus> | undefined>(
    { phase: 'proven', current: true, runs: true },
    optionally<Partial<ReleaseStatus>>(anyRelease),
  ),
  arch: mostly(undefined, optionally(fc.constantFrom('amd64', 'arm64'))),
  isReady: mostly(true, fc.boolean()),
  isCordoned: mostly(false, fc.boolean()),
  isAbsent: mostly(false, fc.boolean()),
  zone: fc.constantFrom('a', 'b', 'c'),
  isSpare: fc.boolean(),
});
type Lie = typeof lies extends fc.Arbitrary<infer One> ? One : never;

/** Which node acts, whose news it has heard by then, and how much time has passed. */
const steps = fc.array(
  fc.record({ at: fc.nat(1_000), hears: fc.array(fc.nat(1_000), { maxLength: 4 }), minutes: fc.nat(20), lie: lies }),
  { maxLength: 80 },
);

type State = 'ready' | 'moving' | 'active' | 'proven';

const STATUS: Readonly<Record<State, Partial<ReleaseStatus>>> = {
  ready: { phase: 'ready' },
  moving: { phase: 'activated', current: true, runs: false },
  active: { phase: 'active', current: true, runs: true },
  proven: { phase: 'proven', current: true, runs: true },
};
const NEXT: Readonly<Record<State, State>> = { ready: 'moving', moving: 'active', active: 'proven', proven: 'proven' };

class Model {
  readonly nodes: readonly ModelNode[];
  readonly release: TurnRelease;
  now = 0;
  /** By `stickpin fleet remove`. */
  removed: readonly string[] = [];

  constructor(
    readonly order: RollOutOrder,
    all: readonly Traits[],
    readonly liar?: string,
  ) {
    // Where no node is Ready, nothing of the stream runs yet.
    this.release = all.some(({ isReady }) => isReady) ? RELEASE : { ...RELEASE, replaces: undefined };
    this.nodes = all.map((of, at) => new ModelNode(`n${at}`, of));
  }

  get honest(): readonly ModelNode[] {
    return this.nodes.filter(({ name }) => name !== this.liar);
  }

  view(self: ModelNode, lie?: Lie, among = this.nodes): FleetView {
    const nodes = among.map((node) => (node.name === this.liar && lie ? lying(node, lie) : node.shown(self)));
    return { self: self.name, nodes, peers: [], removed: this.removed };
  }

  /** One round of a node. @returns its turn, before it acts on it */
  act(self: ModelNode, view: FleetView): Turn {
    self.sees(view, this.now);
    const turn = turnOf(this.release, view, this.order, { sightings: self.sightings });
    if (self.state !== 'ready' || turn.kind === 'go') {
      self.state = NEXT[self.state];
      if (self.state === 'active') self.activeAtMs = this.now;
    }
    return turn;
  }

  /** All news arrive, and time passes, until nothing changes. */
  settle(among = this.nodes): void {
    for (let round = 0; round < 8 * among.length; round += 1) {
      if (among.every(({ state }) => state === 'proven')) return;
      this.now += 31 * MINUTE;
      for (const self of among) {
        for (const other of among) self.hears(other);
        this.act(self, this.view(self, undefined, among));
      }
      for (const self of among) {
        const seen = this.view(self, undefined, among);
        for (const other of among) self.hears(other);
        self.sees(seen, this.now);
      }
    }
  }
}

class ModelNode {
  state: State = 'ready';
  activeAtMs = Number.POSITIVE_INFINITY;
  sightings: Sightings = NO_SIGHTINGS;
  private seen: { readonly view: FleetView; readonly now: number } | undefined;
  /** What it has heard of each node. */
  readonly heard = new Map<string, State>();

  constructor(
    readonly name: string,
    readonly of: Traits,
  ) {}

  /** Its rounds since the last one saw nothing new. */
  sees(view: FleetView, now: number): void {
    if (this.seen !== undefined) {
      const { view: before } = this.seen;
      for (let at = this.seen.now + ROUND; at < now; at += ROUND) {
        this.sightings = sightingsAfter(this.sightings, before, at);
      }
    }
    this.sightings = sightingsAfter(this.sightings, view, now);
    this.seen = { view, now };
  }

  hears(other: ModelNode): void {
    this.heard.set(other.name, other.state);
  }

  get labels(): Readonly<Record<string, string>> {
    return labelsOf(this.of);
  }

  get isReady(): boolean {
    return this.of.isReady || this.state === 'active' || this.state === 'proven';
  }

  isSettled(now: number): boolean {
    return now - this.activeAtMs >= SETTLE;
  }

  /** As `to` sees it: reports come late, the API server answers. */
  shown(to: ModelNode): FleetNode {
    const state = to === this ? this.state : (to.heard.get(this.name) ?? 'ready');
    const release = { ...OWN, ...STATUS[state] } as ReleaseStatus;
    const facts = { labels: this.labels, isReady: this.isReady, isCordoned: false };
    return { name: this.name, isAbsent: false, status: { version: 1, releases: [release] }, facts };
  }
}

function labelsOf({ zone, isControlPlane, isSpare }: { zone: string; isControlPlane: boolean; isSpare: boolean }) {
  return {
    zone,
    ...(isControlPlane && { 'node-role.kubernetes.io/control-plane': '' }),
    ...(isSpare && { spare: '' }),
  };
}

/** It can't change its role. */
function lying({ name, of }: ModelNode, lie: Lie): FleetNode {
  const { release, arch, isReady, isCordoned, isAbsent, ...more } = lie;
  const labels = labelsOf({ ...of, ...more });
  const releases = release === undefined ? [] : [{ ...OWN, ...release } as ReleaseStatus];
  return {
    name,
    isAbsent,
    status: { version: 1, releases, ...(arch && { arch }) },
    facts: { labels, isReady, isCordoned },
  };
}

const isSoaked = (node: ModelNode, { now, order }: Model) =>
  node.state === 'proven' && now - node.activeAtMs >= (order.canary?.soakMs ?? 0);

const canariesIn = (turn: Turn) => turn.line.filter(({ isCanary }) => isCanary).map(({ name }) => name);

/** The drawn names, the first to be chosen first. */
function draw(model: Model): readonly string[] {
  const count = typeof model.order.canary?.nodes === 'number' ? model.order.canary.nodes : 0;
  const [self] = model.nodes;
  if (self === undefined) return [];
  const drawn = (nodes: number) =>
    canariesIn(turnOf(RELEASE, model.view(self), { ...model.order, canary: { nodes, soakMs: 0 } }));
  const chosen = drawn(count);
  return [...chosen, ...drawn(count + 1).filter((name) => !chosen.includes(name))];
}

const clusters = fc.tuple(orders, fc.array(traits, { minLength: 1, maxLength: 8 }), steps);

describe('a roll-out over nodes that hear each other late', () => {
  it('has nodes of one group at a time, behind canaries that have soaked', () => {
    fc.assert(
      fc.property(clusters, ([order, all, moves]) => {
        const model = new Model(
          order,
          all.map((one) => ({ ...one, isReady: true })),
        );
        const stages = new Map(model.nodes.map((node) => [node.name, placeOf(order, node.labels)]));
        for (const name of draw(model).slice(0, typeof order.canary?.nodes === 'number' ? order.canary.nodes : 0)) {
          stages.set(name, -1);
        }
        const stageOf = ({ name }: ModelNode) => stages.get(name) ?? 0;
        for (const { at, hears, minutes } of moves) {
          const self = model.nodes[at % model.nodes.length];
          if (self === undefined) continue;
          model.now += minutes * MINUTE;
          for (const one of hears) self.hears(model.nodes[one % model.nodes.length] ?? self);
          model.act(self, model.view(self));
          const latest = Math.max(...model.nodes.filter(({ state }) => state !== 'ready').map(stageOf));
          for (const node of model.nodes.filter((one) => stageOf(one) < latest)) {
            const isCanary = stageOf(node) === -1 || (typeof order.canary?.nodes === 'string' && stageOf(node) === 0);
            if (isCanary) expect(isSoaked(node, model)).toBe(true);
            else expect(node.state).toMatch(order.done === 'proven' ? /proven/ : /active|proven/);
          }
        }
      }),
    );
  });

  it('comes to its end from everywhere once all news arrive, also where nodes are Ready only with the release', () => {
    fc.assert(
      fc.property(orders, fc.array(traits, { minLength: 1, maxLength: 8 }), steps, (order, all, moves) => {
        const isReady = all[0]?.isReady ?? true;
        const model = new Model(
          order,
          withSpare(all).map((one) => ({ ...one, isReady })),
        );
        for (const { at, hears } of moves) {
          const self = model.nodes[at % model.nodes.length];
          if (self === undefined) continue;
          for (const one of hears) self.hears(model.nodes[one % model.nodes.length] ?? self);
          model.act(self, model.view(self));
        }
        model.settle();
        expect(model.nodes.map(({ state }) => state)).toEqual(model.nodes.map(() => 'proven'));
      }),
    );
  });

  it('never goes earlier on a node for the settings of that node', () => {
    const states = fc.array(fc.constantFrom<State>('ready', 'moving', 'active', 'proven'), {
      minLength: 8,
      maxLength: 8,
    });
    fc.assert(
      fc.property(clusters, orders, states, fc.nat(60), ([signed, all], own, heard, minutes) => {
        for (const self of new Model(signed, all).nodes) {
          const goes = (order: RollOutOrder) => {
            const model = new Model(order, all);
            for (const [at, node] of model.nodes.entries()) self.heard.set(node.name, heard[at] ?? 'ready');
            const view = model.view(self);
            self.sightings = NO_SIGHTINGS;
            self.sees(view, 0);
            self.sees(view, minutes * MINUTE);
            return turnOf(RELEASE, view, order, { sightings: self.sightings }).kind === 'go';
          };
          if (goes(stricterOrder(signed, own))) expect(goes(signed)).toBe(true);
        }
      }),
    );
  });
});

/** One node lies in every field at any time, to each other node as it likes. */
describe('a roll-out with one node that lies', () => {
  const attacked = fc.tuple(orders, fc.array(traits, { minLength: 2, maxLength: 7 }), fc.nat(6), steps);

  function run(
    order: RollOutOrder,
    all: ConstructorParameters<typeof Model>[1],
    liar: string,
    moves: typeof steps extends fc.Arbitrary<infer One> ? One : never,
    went: (self: ModelNode, turn: Turn, view: FleetView, model: Model) => void,
  ): Model {
    const model = new Model(order, all, liar);
    for (const { at, minutes, lie } of moves) {
      const self = model.honest[at % model.honest.length];
      if (self === undefined) continue;
      model.now += minutes * MINUTE;
      for (const other of model.honest) self.hears(other);
      const view = model.view(self, lie);
      const before = self.state;
      const turn = model.act(self, view);
      if (before === 'ready' && self.state !== 'ready') went(self, turn, view, model);
    }
    return model;
  }

  it('keeps the signed canaries and their soak among the others, if one that is chosen does not lie', () => {
    fc.assert(
      fc.property(attacked, ([order, all, at, moves]) => {
        const liar = `n${at % all.length}`;
        const ready = all.map((one) => ({ ...one, isReady: true }));
        const names = draw(new Model(order, ready, liar));
        run(order, ready, liar, moves, (self, _turn, _view, model) => {
          const canary = order.canary;
          if (canary === undefined) return;
          const isChosen =
            typeof canary.nodes === 'string'
              ? ({ of }: ModelNode) => of.isSpare
              : ({ name }: ModelNode) => names.slice(0, canary.nodes as number).includes(name);
          const chosen = model.honest.filter(isChosen);
          const isSubstitute = typeof canary.nodes === 'number' && names.includes(self.name);
          // One more is drawn when the liar leaves the order.
          if (chosen.includes(self) || isSubstitute) return;
          expect(chosen.every((one) => isSoaked(one, model))).toBe(true);
        });
      }),
      { numRuns: 300 },
    );
  });

  it('lets it change nothing about the others that are chosen', () => {
    fc.assert(
      fc.property(attacked, lies, ([order, all, at], lie) => {
        const model = new Model(order, all, `n${at % all.length}`);
        for (const self of model.honest) {
          const chosen = (view: FleetView) =>
            canariesIn(turnOf(RELEASE, view, order)).filter((one) => one !== model.liar);
          const truth = chosen(model.view(self));
          const lied = chosen(model.view(self, lie));
          expect(lied).toEqual(expect.arrayContaining(truth));
          if (typeof order.canary?.nodes === 'number') expect(lied.length).toBeLessThanOrEqual(order.canary.nodes);
        }
      }),
    );
  });

  it('lets no node go while max_unavailable is used up, nor two of a control plane', () => {
    fc.assert(
      fc.property(attacked, ([order, all, at, moves]) => {
        run(order, all, `n${at % all.length}`, moves, (self, turn, view, model) => {
          const isUsed = (one: ModelNode) =>
            !one.isReady || one.state === 'moving' || (one.state !== 'ready' && !one.isSettled(model.now));
          const used = model.honest.filter((one) => one !== self && isUsed(one));
          const isAnyReady = view.nodes.some(({ facts }) => facts?.isReady === true);
          if (!self.of.isReady || !isAnyReady) {
            // It was unavailable before: no other one may be under way.
            if (isAnyReady) expect(used.filter(({ state }) => state !== 'ready')).toEqual([]);
            return;
          }
          const place = turn.line.find(({ name }) => name === self.name);
          const group = place?.isCanary === true ? turn.line.filter(({ isCanary }) => isCanary).length : all.length;
          const [most = 1] = order.maxUnavailable;
          const limit =
            typeof most === 'number' ? most : Math.max(1, Math.floor((group * Number(most.slice(0, -1))) / 100));
          expect(used.length).toBeLessThan(limit);
          if (self.of.isControlPlane) expect(used.filter(({ of }) => of.isControlPlane)).toEqual([]);
        });
      }),
      { numRuns: 300 },
    );
  });

  it('comes to its end from everywhere once that node is removed', () => {
    fc.assert(
      fc.property(attacked, ([order, all, at, moves]) => {
        const ready = all.map((one) => ({ ...one, isReady: true }));
        const model = run(order, ready, `n${at % all.length}`, moves, () => undefined);
        model.removed = [`n${at % all.length}`];
        model.settle(model.honest);
        expect(model.honest.map(({ state }) => state)).toEqual(model.honest.map(() => 'proven'));
      }),
    );
  });
});
