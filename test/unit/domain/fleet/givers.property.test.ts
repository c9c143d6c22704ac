import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  chosenGivers,
  type Giver,
  MOST_GIVERS,
  newTrial,
  type Trial,
  trialAfter,
} from '../../../../src/domain/fleet/givers.ts';

const giver = (at: number, isWhole = true, trial: Partial<Trial> = {}, self = 'self'): Giver => ({
  name: `worker-${at}`,
  bundles: [{ bundleId: 'ocp', isWhole }],
  trial: { ...newTrial(self, `worker-${at}`), ...trial },
});
const trials = fc.record({ strikes: fc.nat(5), hasGiven: fc.boolean(), isWrong: fc.boolean() });
const few = fc.nat(15).map((number) => number === 0);
const fleets = fc
  .array(fc.record({ isWhole: few, trial: trials, bundles: fc.subarray(['a', 'b', 'c'], { minLength: 1 }) }), {
    maxLength: 40,
    size: 'max',
  })
  .map((nodes) =>
    nodes.map(({ bundles, isWhole, trial }, at) => ({
      ...giver(at, isWhole, trial),
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

it('keeps nodes that give, and spreads nodes over all givers', () => {
  const uses = new Map<string, number>();
  for (let node = 0; node < 500; node += 1) {
    const givers = Array.from({ length: 50 }, (_none, at) => giver(at, true, {}, `node-${node}`));
    const chosen = chosenGivers(givers);
    for (const name of chosen) uses.set(name, (uses.get(name) ?? 0) + 1);
    const giving = [...chosen].slice(0, 4);
    const after = givers.map((one) =>
      giving.includes(one.name) ? { ...one, trial: { ...one.trial, hasGiven: true } } : one,
    );
    expect([...chosenGivers(after)]).toEqual(expect.arrayContaining(giving));
  }
  // 80 on average.
  expect(uses.size).toBe(50);
  expect(Math.max(...uses.values())).toBeLessThan(120);
});

it('comes to the only honest node, whatever all others claim, and however they fail', () => {
  const fault = fc.constantFrom('mute', 'wrong', 'slow');
  const others = fc.array(fc.record({ isWhole: fc.boolean(), fault }), { maxLength: 60, size: 'max' });
  fc.assert(
    fc.property(others, fc.boolean(), fc.nat(), fc.string(), (liars, isWhole, place, self) => {
      const at = place % (liars.length + 1);
      let givers = liars.map((liar, number) => giver(number, liar.isWhole, {}, self));
      givers.splice(at, 0, giver(99, isWhole, {}, self));
      const terms = Math.ceil(givers.length / (MOST_GIVERS / 2)) + 1;
      const usedIn = Array.from({ length: terms }, () => {
        const chosen = chosenGivers(givers);
        givers = givers.map((one) => {
          if (!chosen.has(one.name)) return one;
          const how = liars[Number(one.name.slice('worker-'.length))]?.fault;
          const bytes = { mute: 0, wrong: 1e9, slow: 1e5 }[how ?? 'mute'];
          return { ...one, trial: trialAfter({ ...one.trial, isWrong: how === 'wrong' }, bytes) };
        });
        return chosen.has('worker-99');
      });
      expect(usedIn).toContain(true);
    }),
  );
});
