import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  chosenGivers,
  type Giver,
  givesTooLittle,
  JUDGED_MS,
  MOST_GIVERS,
  newRank,
} from '../../../../src/domain/fleet/givers.ts';

const giver = (at: number, isWhole = true, strikes = 0, self = 'self'): Giver => ({
  name: `worker-${at}`,
  bundles: [{ bundleId: 'ocp', isWhole }],
  rank: { ...newRank(self, `worker-${at}`), strikes },
});
const few = fc.nat(15).map((number) => number === 0);
const fleets = fc
  .array(fc.record({ isWhole: few, strikes: fc.nat(5), bundles: fc.subarray(['a', 'b', 'c'], { minLength: 1 }) }), {
    maxLength: 40,
    size: 'max',
  })
  .map((nodes) =>
    nodes.map(({ bundles, isWhole, strikes }, at) => ({
      ...giver(at, isWhole, strikes),
      bundles: bundles.map((bundleId) => ({ bundleId, isWhole })),
    })),
  );

it('uses 8 nodes of each bundle, or all that there are, and always one that has it whole', () => {
  fc.assert(
    fc.property(fleets, (givers) => {
      const chosen = chosenGivers(givers);
      for (const bundle of ['a', 'b', 'c']) {
        const holders = givers.filter(({ bundles }) => bundles.some(({ bundleId }) => bundleId === bundle));
        const used = holders.filter(({ name }) => chosen.has(name));
        expect(used.length).toBeGreaterThanOrEqual(Math.min(MOST_GIVERS, holders.length));
        const isWhole = ({ bundles }: Giver) => bundles.some((one) => one.isWhole);
        expect(used.some(isWhole)).toBe(holders.some(isWhole));
      }
      expect(chosen.size).toBeLessThanOrEqual(3 * MOST_GIVERS);
    }),
  );
});

it('replaces one node at most when another one begins to give', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.boolean(), (count, isWhole) => {
      const givers = Array.from({ length: count }, (_none, at) => giver(at, at % 2 === 0));
      const before = chosenGivers(givers);
      const after = chosenGivers([...givers, giver(count, isWhole)]);
      expect([...before].filter((name) => !after.has(name)).length).toBeLessThanOrEqual(1);
    }),
  );
});

it('spreads nodes over all givers', () => {
  const uses = new Map<string, number>();
  for (let node = 0; node < 500; node += 1) {
    const givers = Array.from({ length: 50 }, (_none, at) => giver(at, true, 0, `node-${node}`));
    const chosen = chosenGivers(givers);
    for (const name of chosen) uses.set(name, (uses.get(name) ?? 0) + 1);
  }
  // 80 on average.
  expect(uses.size).toBe(50);
  expect(Math.max(...uses.values())).toBeLessThan(120);
});

it('comes to the only honest node, whatever all others claim, and however they fail', () => {
  // Another one gives wrong bytes, and is struck for that at once.
  const given = {
    mute: { bytes: 0, isQueued: false },
    slow: { bytes: 1e5, isQueued: false },
    busy: { bytes: 0, isQueued: true },
  };
  const fault = fc.constantFrom('mute' as const, 'slow' as const, 'busy' as const, 'wrong' as const);
  const others = fc.array(fc.record({ isWhole: fc.boolean(), fault }), { maxLength: 60, size: 'max' });
  fc.assert(
    fc.property(others, fc.boolean(), fc.nat(), fc.string(), (liars, isWhole, place, self) => {
      const at = place % (liars.length + 1);
      let givers = liars.map((liar, number) => giver(number, liar.isWhole, 0, self));
      givers.splice(at, 0, giver(99, isWhole, 0, self));
      const terms = Math.ceil(givers.length / (MOST_GIVERS / 2)) + 1;
      const since = new Map<string, number>();
      let isUsed = false;
      // A liar with a queue has its place for 10 minutes.
      for (let minute = 0; minute <= 10 * terms && !isUsed; minute += 1) {
        const chosen = chosenGivers(givers);
        isUsed = chosen.has('worker-99');
        for (const name of since.keys()) if (!chosen.has(name)) since.delete(name);
        givers = givers.map((one) => {
          if (!chosen.has(one.name)) return one;
          const how = liars[Number(one.name.slice('worker-'.length))]?.fault ?? 'mute';
          const ms = (minute - (since.get(one.name) ?? minute)) * JUDGED_MS;
          since.set(one.name, since.get(one.name) ?? minute);
          if (how !== 'wrong' && !givesTooLittle({ ms, ...given[how] })) return one;
          since.delete(one.name);
          return { ...one, rank: { ...one.rank, strikes: one.rank.strikes + 1 } };
        });
      }
      expect(isUsed).toBe(true);
    }),
  );
});
