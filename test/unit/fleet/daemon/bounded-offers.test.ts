import { beforeEach, expect, it } from 'vitest';
import type { OfferedBundle } from '../../../../src/domain/fleet/node-status.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { BoundedOffers } from '../../../../src/fleet/daemon/bounded-offers.ts';
import { PEER_BUDGET, PeerBudgets } from '../../../../src/fleet/wire/peer-budgets.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

let nowMs: number;
let bounds: BoundedOffers;
beforeEach(() => {
  nowMs = 0;
  bounds = new BoundedOffers(new PeerBudgets({ monotonic: () => nowMs }));
});

const offer = (at: number, revision = 'r1'): OfferedBundle => {
  const version = `4.13.${at}`;
  return { bundleId: digestOf(version), name: 'ocp', version, sequence: at, isWhole: true, revision };
};
const offers = (count: number, revision?: string) => Array.from({ length: count }, (_, at) => offer(at, revision));
const pathOf = ({ bundleId }: OfferedBundle) => `ocp ${bundleId}`;

function report(rejected: readonly OfferedBundle[], code = 'bundle/unknown-key'): void {
  const refusals = rejected.map((one) => ({
    medium: 'w',
    path: pathOf(one),
    reason: { code, message: 'no such key' },
  }));
  bounds.reported('w', 'w', { rejected: refusals, bundles: [] } as unknown as StatusReport);
}

it('reads some bundles at once, and all of an honest peer in the end', () => {
  const counts = [1, 2, 3, 4].map(() => bounds.select('w', offers(30)));
  expect(counts.map((one) => [one?.bundles.length, one?.isCut])).toEqual([
    [8, true],
    [16, true],
    [24, true],
    [30, false],
  ]);
  expect(bounds.exclusion('w')).toBeUndefined();
});

it('leaves out a peer with more bundles than a minute has, and takes the others of the minute after', () => {
  let time = 0;
  while (bounds.select('w', offers(8, `r${time}`)) !== undefined) time += 1;
  expect(time).toBe(Math.floor(PEER_BUDGET.bundle.perMinute / 8));
  expect(bounds.exclusion('other')).toBeUndefined();
  nowMs = 60_000;
  expect(bounds.select('w', offers(8, 'later'))?.bundles).toHaveLength(8);
});

it('reads a bundle that this node has taken as often as its blobs change', () => {
  const all = offers(8);
  bounds.select('w', all);
  const bundles = all.map(({ bundleId }) => ({ bundleId, media: ['w'] }));
  bounds.reported('w', 'w', { rejected: [], bundles } as unknown as StatusReport);
  for (let time = 0; time < 1_000; time += 1) {
    expect(bounds.select('w', offers(8, `r${time}`))?.bundles).toHaveLength(8);
  }
});

it('reads a refused bundle again with another revision or other keys only', () => {
  const [one] = offers(1);
  if (one === undefined) return expect.unreachable();
  bounds.select('w', [one]);
  report([one]);
  const refusal = { path: pathOf(one), reason: { code: 'bundle/unknown-key', message: 'no such key' } };
  expect(bounds.select('w', [one])).toEqual({ bundles: [], refused: [refusal], isCut: false });
  expect(bounds.select('w', [offer(0, 'r2')])?.bundles).toHaveLength(1);
  report([one]);
  expect(bounds.select('w', [offer(0, 'r2')])?.refused).toHaveLength(1);
  expect(bounds.forgetRefusals('w')).toBe(true);
  expect(bounds.select('w', [offer(0, 'r2')])?.bundles).toHaveLength(1);
});

it('reads a bundle again that could not be read', () => {
  const [one] = offers(1);
  if (one === undefined) return expect.unreachable();
  bounds.select('w', [one]);
  report([one], 'media/read');
  expect(bounds.select('w', [one])?.bundles).toHaveLength(1);
});

it('counts each refusal once while it is shown, and again after it came back', () => {
  const all = offers(8);
  bounds.select('w', all);
  for (let time = 0; time < 5; time += 1) report(all);
  expect(bounds.exclusion('w')).toBeUndefined();
  bounds.hide('w');
  expect(bounds.select('w', all)?.refused).toHaveLength(8);
  expect(bounds.select('w', [])?.refused).toEqual([]);
  expect(bounds.select('w', all)).toBeUndefined();
  expect(bounds.exclusion('w')).toMatchObject({ cost: 'refusal', count: 1, minutes: 1 });
});

it('leaves out a peer that comes and goes', () => {
  for (let time = 0; time <= PEER_BUDGET.arrival.perMinute; time += 1) bounds.arrived('w');
  expect(bounds.exclusion('w')).toMatchObject({ cost: 'arrival' });
});
