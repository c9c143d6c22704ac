import { expect, it } from 'vitest';
import type { Identity } from '../../../../src/fleet/identity/identity.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const nodeAt = (at: number) => ({ name: `worker-${at}`, endpoint: { host: `10.0.0.${at}`, port: 9777 }, serves: [] });

it('queries no removed node, whether the cluster, the disk or a fixed address names it', async () => {
  const stop = new AbortController();
  const cluster = fixedCluster('self');
  cluster.set([nodeAt(1), nodeAt(2)], 'it is away');
  const queried: string[] = [];
  const stored = [3, 4].map((at) => ({ name: `worker-${at}`, address: `10.0.0.${at}:9777` }));
  const peers = fixedPeers({
    clock: systemClock,
    cluster,
    store: { load: async () => stored, save: async () => true },
    settings: {
      peers: ['10.0.0.5', '10.0.0.6'],
      listen: 'auto',
      activate: 'each',
      absent: 3_600_000,
      exclude: ['worker-1', 'worker-3', 'worker-5'],
    },
    request: async ({ target }) => {
      queried.push(target.endpoint.host);
      const name = `worker-${target.endpoint.host.slice(-1)}`;
      return { document: { version: 1, bundles: [], node: { name, status: { version: 1, releases: [] } } }, etag: 'x' };
    },
  });
  await peers.load(stop.signal);
  const running = peers.run(stop.signal);
  try {
    const left = ['worker-2', 'worker-4', 'worker-6'];
    await eventually(() => {
      const known = [[...peers.statuses().keys()], peers.list().map(({ name }) => name), [...peers.nodeNames()]];
      expect(known.map((names) => names.sort())).toEqual([left, left, left]);
    });
    // Nobody knows who is at a fixed address before it answers.
    expect(queried.filter((host) => ['10.0.0.1', '10.0.0.3'].includes(host))).toEqual([]);
  } finally {
    stop.abort();
    await running;
  }
});

it('knows no node by an earlier name of its address where a list of keys names the nodes', async () => {
  const stop = new AbortController();
  const cluster = fixedCluster('self');
  cluster.set([{ name: 'host-9', serves: [] }], 'it is not used');
  const expected: (readonly string[])[] = [];
  const peers = fixedPeers({
    clock: systemClock,
    cluster,
    identity: () => ({ keys: new Map([[`sha256:${'a'.repeat(64)}`, 'host-9']]) }) as unknown as Identity,
    store: { load: async () => [{ name: 'host-2', address: '10.0.0.9:9777' }], save: async () => true },
    settings: { peers: ['10.0.0.9'], listen: 'auto', activate: 'each', absent: 3_600_000, exclude: [] },
    request: async (peer) => {
      expected.push(peer.target.names);
      peer.isAnsweredBy('host-9');
      return undefined;
    },
  });
  await peers.load(stop.signal);
  const running = peers.run(stop.signal);
  try {
    await eventually(() => expect(peers.list().map(({ name }) => name)).toEqual(['host-9']));
    expect([expected[0], peers.nodeNames()]).toEqual([[], ['host-9']]);
  } finally {
    stop.abort();
    await running;
  }
});
