import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  exclusionText,
  FORGIVEN_MS,
  PEER_BUDGET,
  PeerBudgets,
  type PeerCost,
} from '../../../../src/fleet/wire/peer-budgets.ts';

const MINUTE_MS = 60_000;
const costs = Object.keys(PEER_BUDGET) as PeerCost[];

function play() {
  let nowMs = 0;
  const budgets = new PeerBudgets({ monotonic: () => nowMs });
  return {
    at: (ms: number) => {
      nowMs = ms;
    },
    now: () => nowMs,
    exclusion: () => budgets.exclusion('w'),
    charge: (count: number, cost: PeerCost) => budgets.charge('w', cost, count),
    overspend: (cost: PeerCost = 'bundle') => {
      budgets.charge('w', cost, PEER_BUDGET[cost].perMinute + 1);
      return budgets.exclusion('w');
    },
  };
}

it('leaves a peer out for longer each time, and for 6 h at most', () => {
  const { at, exclusion, overspend } = play();
  const minutes: number[] = [];
  for (let time = 1; time <= 7; time += 1) {
    const { minutes: long = 0, endsMs = 0 } = overspend() ?? {};
    minutes.push(long);
    at(endsMs - 1);
    expect(exclusion()?.count).toBe(time);
    at(endsMs);
    expect(exclusion()).toBeUndefined();
  }
  expect(minutes).toEqual([1, 5, 30, 120, 360, 360, 360]);
});

it('begins no second exclusion during one, and forgets one after a day', () => {
  const { at, overspend } = play();
  const first = overspend();
  at(30_000);
  expect(overspend()).toBe(first);
  at(MINUTE_MS);
  expect(overspend()?.count).toBe(2);
  at(6 * MINUTE_MS + FORGIVEN_MS);
  expect(overspend()).toMatchObject({ count: 1, minutes: 1 });
});

it('says what was too much, and how long it is left out', () => {
  const { at, overspend } = play();
  const first = overspend('refusal');
  at(MINUTE_MS);
  overspend('refusal');
  at(10 * MINUTE_MS);
  const third = overspend('address');
  expect([first, third].map((exclusion) => exclusion && exclusionText(exclusion))).toEqual([
    'it had more than 16 bundles that this node rejects in a minute, so nothing is taken from it for 1 min',
    'it had more than 6 changes of its address in a minute, so nothing is taken from it for 30 min (time 3 in a row)',
  ]);
});

const steps = fc.array(
  fc.record({ afterMs: fc.integer({ min: 0, max: MINUTE_MS }), count: fc.integer({ min: 0, max: 40 }) }),
  { maxLength: 60 },
);

it('lets a peer spend at most the rate and one minute more, whatever it does', () => {
  fc.assert(
    fc.property(fc.constantFrom(...costs), steps, (cost, all) => {
      const { at, now, charge, exclusion } = play();
      const { perMinute } = PEER_BUDGET[cost];
      let [spent, exclusions] = [0, 0];
      for (const { afterMs, count } of all) {
        at(now() + afterMs);
        if (exclusion() !== undefined) continue;
        charge(count, cost);
        if (exclusion() === undefined) spent += count;
        else exclusions += 1;
        expect(spent).toBeLessThanOrEqual((now() / MINUTE_MS) * perMinute + perMinute * (exclusions + 1) + 1e-6);
      }
    }),
  );
});

it('never leaves out a peer that keeps to the rate', () => {
  fc.assert(
    fc.property(fc.constantFrom(...costs), steps, (cost, all) => {
      const { at, now, charge, exclusion } = play();
      for (const { afterMs } of all) {
        at(now() + afterMs);
        charge(Math.floor((afterMs * PEER_BUDGET[cost].perMinute) / MINUTE_MS), cost);
        expect(exclusion()).toBeUndefined();
      }
    }),
  );
});
