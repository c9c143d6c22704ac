import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  charge,
  exclusionOf,
  FORGIVEN_MS,
  leftOf,
  NEW_ACCOUNT,
  PEER_BUDGET,
  type PeerAccount,
  type PeerCost,
} from '../../../../src/domain/fleet/budget.ts';
import { exclusionText } from '../../../../src/fleet/wire/peer-budgets.ts';

const MINUTE_MS = 60_000;
const costs = Object.keys(PEER_BUDGET) as PeerCost[];

/** Spends more than there is. */
function overspend(account: PeerAccount, nowMs: number, cost: PeerCost = 'bundle'): PeerAccount {
  return charge(account, cost, PEER_BUDGET[cost].perMinute + 1, nowMs);
}

it('leaves a peer out for longer each time, and for 6 h at most', () => {
  let account = NEW_ACCOUNT;
  let nowMs = 0;
  const minutes: number[] = [];
  for (let time = 1; time <= 7; time += 1) {
    account = overspend(account, nowMs);
    minutes.push(account.exclusion?.minutes ?? 0);
    nowMs = account.exclusion?.endsMs ?? 0;
    expect(exclusionOf(account, nowMs - 1)?.count).toBe(time);
    expect(exclusionOf(account, nowMs)).toBeUndefined();
  }
  expect(minutes).toEqual([1, 5, 30, 120, 360, 360, 360]);
});

it('begins no second exclusion during one, and forgets one after a day', () => {
  const first = overspend(NEW_ACCOUNT, 0);
  expect(overspend(first, 30_000)).toBe(first);
  const second = overspend(first, MINUTE_MS);
  expect(second.exclusion?.count).toBe(2);
  expect(overspend(second, 6 * MINUTE_MS + FORGIVEN_MS).exclusion).toMatchObject({ count: 1, minutes: 1 });
});

it('says what was too much, and how long it is left out', () => {
  const first = overspend(NEW_ACCOUNT, 0, 'refusal');
  const third = overspend(overspend(first, MINUTE_MS), 10 * MINUTE_MS, 'address');
  expect([first, third].map(({ exclusion }) => exclusion && exclusionText(exclusion))).toEqual([
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
      let account = NEW_ACCOUNT;
      let nowMs = 0;
      let spent = 0;
      for (const { afterMs, count } of all) {
        nowMs += afterMs;
        const isOut = exclusionOf(account, nowMs) !== undefined;
        if (isOut) continue;
        const isPaid = count <= leftOf(account, cost, nowMs);
        account = charge(account, cost, count, nowMs);
        if (isPaid) spent += count;
        else expect(exclusionOf(account, nowMs)).toMatchObject({ cost, beganMs: nowMs });
        const { perMinute } = PEER_BUDGET[cost];
        const exclusions = account.exclusion?.count ?? 0;
        expect(spent).toBeLessThanOrEqual((nowMs / MINUTE_MS) * perMinute + perMinute * (exclusions + 1) + 1e-6);
      }
    }),
  );
});

it('never leaves out a peer that keeps to the rate', () => {
  fc.assert(
    fc.property(fc.constantFrom(...costs), steps, (cost, all) => {
      let account = NEW_ACCOUNT;
      let nowMs = 0;
      for (const { afterMs } of all) {
        nowMs += afterMs;
        account = charge(account, cost, Math.floor((afterMs * PEER_BUDGET[cost].perMinute) / MINUTE_MS), nowMs);
        expect(account.exclusion).toBeUndefined();
      }
    }),
  );
});
