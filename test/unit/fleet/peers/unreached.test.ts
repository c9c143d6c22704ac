import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { WarnOnce } from '../../../../src/fleet/trouble.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fastClock } from '../../../support/kubernetes/fast-clock.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

/** A port that refuses connections. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

it('names what a node announces that has not answered for a minute', async () => {
  const cluster = fixedCluster('worker-2');
  const endpoint = { host: '127.0.0.1', port: await closedPort() };
  const bundleId = digestOf('ocp 4.13.7');
  cluster.set([
    { name: 'worker-1', endpoint, serves: [bundleId] },
    { name: 'worker-2', serves: [] },
  ]);
  const clock = fastClock(500);
  const log = createRecordingLog();
  const peers = fixedPeers({ clock, cluster, warnings: new WarnOnce(log, clock) });
  const stop = new AbortController();
  const running = peers.run(stop.signal);
  await eventually(() => expect(peers.list()[0]?.trouble).toContain('ECONNREFUSED'));
  const began = clock.now();
  expect(peers.list()[0]?.since).toBeUndefined();
  const beganMs = clock.monotonic();
  await eventually(() => expect(peers.list()[0]?.unreached).toEqual([bundleId]));
  expect(clock.monotonic() - beganMs).toBeGreaterThan(30_000);
  expect(Math.abs((peers.list()[0]?.since ?? 0) - began)).toBeLessThan(30_000);
  stop.abort();
  await running;
  expect(log.lines.map(({ level }) => level)).toEqual(['warn']);
});
