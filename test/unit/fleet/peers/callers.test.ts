import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Peers } from '../../../../src/fleet/peers/peers.ts';
import { createOffersHandler } from '../../../../src/fleet/wire/server.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { createMemoryOffers } from '../../../support/fleet/memory-offers.ts';
import { fastClock } from '../../../support/kubernetes/fast-clock.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const clock = fastClock(500);
/** When worker-1 was queried, by the clock. */
const queriedAt: number[] = [];
const handle = createOffersHandler(createMemoryOffers(), systemClock, silentLog);
let isMute = false;
const worker1 = createServer((request, response) => {
  queriedAt.push(clock.monotonic());
  if (isMute) response.destroy();
  else void handle(request, response);
});
let peers: Peers;
let stop: () => Promise<void>;

beforeEach(async () => {
  queriedAt.length = 0;
  worker1.listen(0, '127.0.0.1');
  await once(worker1, 'listening');
  const { port } = worker1.address() as AddressInfo;
  const cluster = fixedCluster('worker-2');
  cluster.set([
    { name: 'worker-1', endpoint: { host: '127.0.0.1', port }, serves: [] },
    { name: 'worker-2', serves: [] },
  ]);
  peers = fixedPeers({ clock, cluster });
  const stopping = new AbortController();
  const running = peers.run(stopping.signal);
  stop = async () => {
    stopping.abort();
    await running;
  };
});
afterEach(async () => {
  await stop();
  worker1.close();
  worker1.closeAllConnections();
});

it.each([false, true])('queries a node that calls without end once in 5 s at most, mute: %s', async (mute) => {
  isMute = mute;
  await eventually(() => {
    peers.calledBy('worker-1');
    expect(queriedAt.length).toBeGreaterThan(5);
  });
  const gaps = queriedAt.slice(1).map((ms, at) => ms - (queriedAt[at] ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(5_000);
});

it('misses the news of a node that calls and does not answer, for 15 min', async () => {
  isMute = true;
  let calledMs = 0;
  await eventually(() => {
    calledMs = clock.monotonic();
    peers.calledBy('worker-1');
    expect(peers.isNewsMissed()).toBe(true);
  });
  await eventually(() => expect(peers.isNewsMissed()).toBe(false));
  expect(clock.monotonic() - calledMs).toBeGreaterThan(900_000);
});
