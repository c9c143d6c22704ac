import { expect, it } from 'vitest';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';
import { SimulatedClock } from '../../../support/simulated-clock.ts';

const MINUTE_MS = 60_000;

it('reads the nodes of a cluster once a minute while none changes, and a change within a second', async () => {
  const clock = new SimulatedClock();
  const cluster = fixedCluster('self');
  const readMs: number[] = [];
  const nodes = () => {
    readMs.push(clock.monotonic());
    return cluster.nodes();
  };
  const peers = fixedPeers({ clock, cluster: { ...cluster, nodes } });
  const stop = new AbortController();
  const running = peers.run(stop.signal);
  cluster.set([{ name: 'worker-1', serves: [] }]);
  await clock.passUntil(10 * MINUTE_MS);
  expect(new Set(readMs).size).toBeLessThanOrEqual(11);
  cluster.set([{ name: 'worker-1', endpoint: { host: '10.0.0.1', port: 9777 }, serves: [] }]);
  await clock.passUntil(10 * MINUTE_MS + 1_000);
  expect(peers.nodeNames()).toEqual(['worker-1']);
  stop.abort();
  await running;
});
