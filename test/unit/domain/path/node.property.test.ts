import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTarget } from '../../../../src/domain/activation/stream-path.ts';
import type { UpdateRules, VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import { createModelMachine } from '../../../support/daemon/model/model-machine.ts';
import { createModelNode } from '../../../support/daemon/model/model-node.ts';
import { POLICY, pathWith, referenceOf, stored, verified } from '../../../support/daemon/scenario.ts';

const SOAK_MS = POLICY.lifecycle.soak;

interface Drawn {
  readonly minor: number;
  readonly from: number | null;
  readonly barrier: boolean;
  readonly deadend: boolean;
}

/** Up to 6 releases `1.N.0` with the sequence N, with rules that may contradict each other. */
const drawn: fc.Arbitrary<readonly Drawn[]> = fc.uniqueArray(
  fc.record({
    minor: fc.integer({ min: 1, max: 8 }),
    from: fc.option(fc.integer({ min: 1, max: 8 }), { freq: 2 }),
    barrier: fc.boolean(),
    deadend: fc.integer({ min: 0, max: 5 }).map((one) => one === 0),
  }),
  { selector: ({ minor }) => minor, minLength: 1, maxLength: 6 },
);

/** A range names one minor version alone, so that circles and dead locks are frequent. */
function releaseOf({ minor, from, barrier, deadend }: Drawn): VerifiedBundle {
  const update: UpdateRules = {
    ...(from !== null && { from: `1.${from}.x` }),
    ...(barrier && { barrier: { reason: 'b' } }),
    ...(deadend && { deadend: { reason: 'd' } }),
  };
  return verified({
    version: `1.${minor}.0`,
    sequence: minor,
    images: { [`etcd-${minor}`]: ['os'] },
    imageOver: { [`etcd-${minor}`]: { component: 'etcd' } },
    update,
  });
}

interface Outcome {
  /** Minor versions, in the order in which they were activated. */
  readonly order: readonly number[];
  /** What holds each of the others: its codes, and what can end them. */
  readonly held: ReadonlyMap<number, readonly string[]>;
}

/** Runs and proves whatever is activated, until nothing more happens. All sticks stay in. */
function play(first: VerifiedBundle, others: readonly VerifiedBundle[]): Outcome {
  const machine = createModelMachine();
  const order: number[] = [];
  const node = createModelNode({
    machine,
    policy: POLICY,
    onDecision: (effects) => {
      for (const effect of effects) {
        if (effect.kind !== 'start' || effect.task.kind !== 'activate') continue;
        const { bundleId } = effect.task;
        const bundle = node.bundles().find((one) => one.bundleId === bundleId);
        if (bundle !== undefined) order.push(bundle.payload.sequence);
      }
    },
  });
  node.plug(first);
  node.settle();
  for (const bundle of others) node.plug(bundle);
  node.settle();
  for (let activated = 0; activated < order.length; ) {
    activated = order.length;
    machine.run('etcd', referenceOf(`etcd-${order.at(-1)}`));
    node.settle();
    machine.pass(SOAK_MS);
    node.settle();
  }
  const entries = node.assessment()?.bundles ?? [];
  const waiting = entries.filter(({ bundle }) => bundle.activatedAt === undefined && bundle.retiredAt === undefined);
  const holdsOf = ({ holds }: (typeof entries)[number]) => holds.map(({ code, releasedBy }) => `${code} ${releasedBy}`);
  return { order, held: new Map(waiting.map((entry) => [entry.bundle.payload.sequence, holdsOf(entry)])) };
}

// Much arithmetic, which a busy machine makes many seconds.
describe('a node, whatever its releases say of each other', { timeout: 120_000 }, () => {
  it('activates each release at most once and goes up only, and says of each other one what holds it', () => {
    fc.assert(
      fc.property(drawn, (rows) => {
        const [first, ...others] = rows.map(releaseOf);
        if (first === undefined) return;
        const { order, held } = play(first, others);
        expect(new Set(order).size).toBe(order.length);
        expect(order).toEqual([...order].sort((a, b) => a - b));
        const current = order.at(-1) ?? 0;
        for (const [sequence, holds] of held) {
          // What was passed over, or came with a lower sequence, is older than the present release.
          if (sequence < current) continue;
          expect(holds.length, `${sequence} beside ${order}`).toBeGreaterThan(0);
          for (const hold of holds) expect(hold).toMatch(/^[a-z]+(?:\/[a-z-]+)? (?:time|event|person)$/);
        }
      }),
      { numRuns: 150 },
    );
  });

  it('does not depend on the order in which the sticks are plugged in', () => {
    const shuffled = drawn.chain(([first, ...others]) =>
      fc.record({
        first: fc.constant(first),
        others: fc.constant(others),
        order: fc.shuffledSubarray(others, { minLength: others.length }),
      }),
    );
    fc.assert(
      fc.property(shuffled, ({ first, others, order }) => {
        if (first === undefined) return;
        const one = play(releaseOf(first), others.map(releaseOf));
        const other = play(releaseOf(first), order.map(releaseOf));
        expect(other).toEqual(one);
      }),
      { numRuns: 100 },
    );
  });

  it('is never allowed more by the first advisory about a release', () => {
    const cases = fc.record({
      rows: drawn,
      at: fc.nat(5),
      isProven: fc.boolean(),
      about: fc.integer({ min: 1, max: 8 }),
      says: fc.constantFrom({ barrier: true } as const, { deadend: true } as const),
    });
    fc.assert(
      fc.property(cases, ({ rows, at, isProven, about, says }) => {
        const version = `1.${about}.0`;
        // A later word about the same release replaces an earlier one as a whole.
        const others = rows.map((row) => (row.minor === about ? { ...row, barrier: false, deadend: false } : row));
        const present = at % others.length;
        const releases = others.map((row, index) =>
          stored(releaseOf(row), index === present ? { activatedAt: 1, ...(isProven && { provenAt: 2 }) } : {}),
        );
        const advisory = stored(
          verified({ version: '2026.1.1', sequence: 90, images: {}, advisories: [{ version, reason: 'r', ...says }] }),
        );
        const allowed = (bundles: Parameters<typeof pathWith>[0]) => {
          const path = pathWith(bundles);
          return path.releases.filter((one) => isTarget(path, one)).map((one) => one.version);
        };
        const after = allowed([...releases, advisory]).filter((one) => one !== '2026.1.1');
        expect(allowed(releases)).toEqual(expect.arrayContaining(after));
      }),
      { numRuns: 500 },
    );
  });
});
