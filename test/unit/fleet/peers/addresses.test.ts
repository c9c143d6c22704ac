import { beforeEach, expect, it } from 'vitest';
import { Addresses } from '../../../../src/fleet/peers/addresses.ts';
import { PEER_BUDGET, PeerBudgets } from '../../../../src/fleet/wire/peer-budgets.ts';

const { perMinute } = PEER_BUDGET.address;
let nowMs: number;
let addresses: Addresses;
beforeEach(() => {
  nowMs = 0;
  addresses = new Addresses(new PeerBudgets({ monotonic: () => nowMs }));
});

const node = (name: string, host: string) => ({ name, serves: [], endpoint: { host, port: 9777 } });
const hostsOf = (...nodes: ReturnType<typeof node>[]) => addresses.follow(nodes).map(({ endpoint }) => endpoint?.host);

it('leaves out a node that moves too often, and no other one', () => {
  for (let at = 0; at <= perMinute; at += 1) expect(hostsOf(node('b', `10.0.1.${at}`))).toEqual([`10.0.1.${at}`]);
  const other = node('c', '10.0.0.3');
  expect(hostsOf(node('b', '10.0.2.1'), other)).toEqual([undefined, '10.0.0.3']);
  expect(addresses.leftOut()).toEqual(
    new Map([
      [
        'b',
        {
          address: '10.0.2.1:9777',
          why: 'it had more than 6 changes of its address in a minute, so nothing is taken from it for 1 min',
        },
      ],
    ]),
  );
  nowMs = 60_000;
  expect(hostsOf(node('b', '10.0.2.1'))).toEqual(['10.0.2.1']);
  expect(addresses.leftOut()).toEqual(new Map());
});
