import { beforeEach, expect, it } from 'vitest';
import { Addresses } from '../../../../src/fleet/peers/addresses.ts';
import { WarnOnce } from '../../../../src/fleet/trouble.ts';
import { PEER_BUDGET, PeerBudgets } from '../../../../src/fleet/wire/peer-budgets.ts';
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts';

const { perMinute } = PEER_BUDGET.address;
let nowMs: number;
let log: RecordingLog;
let addresses: Addresses;
beforeEach(() => {
  nowMs = 0;
  log = createRecordingLog();
  const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  addresses = new Addresses(new PeerBudgets(clock), new WarnOnce(log, clock));
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

it('says once that two machines of one name take turns', () => {
  for (let time = 0; time < 4; time += 1) hostsOf(node('b', `10.0.0.${time % 2}`));
  expect(log.lines.map(({ message }) => message)).toEqual([
    'Node b announces 10.0.0.0:9777 and 10.0.0.1:9777 in turns: two machines may have this name',
  ]);
});

it('says nothing of a node that moves', () => {
  for (const host of ['10.0.0.1', '10.0.0.2', '10.0.0.3']) hostsOf(node('b', host));
  expect(log.lines).toEqual([]);
});
