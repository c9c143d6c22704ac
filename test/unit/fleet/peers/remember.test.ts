import { expect, it } from 'vitest';
import { RememberedPeers, type StoredPeer } from '../../../../src/fleet/peers/stored-peers.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

/** Node `a`. */
async function scene(stored: readonly StoredPeer[] = []) {
  const cluster = fixedCluster('a');
  const saved: (readonly StoredPeer[])[] = [];
  const store = { load: async () => stored, save: async (peers: readonly StoredPeer[]) => void saved.push(peers) };
  const known = new RememberedPeers(store, cluster);
  await known.load(NEVER_ABORTED);
  const answers = (name: string, host: string) => {
    const target = { name, endpoint: { host, port: 9777 }, names: [name], isAnnounced: false, announced: '' };
    return known.answered({ target, node: undefined }, NEVER_ABORTED);
  };
  return { cluster, known, saved, answers, follow: () => known.followCluster(NEVER_ABORTED) };
}

const node = (name: string, host?: string) => ({
  name,
  serves: [],
  ...(host !== undefined && { endpoint: { host, port: 9777 } }),
});
const B = { name: 'b', address: '10.0.0.2:9777' };

it('keeps all nodes that the Kubernetes API names, with their addresses where it has them', async () => {
  const { cluster, saved, follow } = await scene([B, { name: 'gone', address: '10.0.0.8:9777' }]);
  cluster.set([node('a', '10.0.0.1'), node('b'), node('c', '10.0.0.3'), node('d')]);
  await follow();
  await follow();
  expect(saved).toEqual([[B, { name: 'c', address: '10.0.0.3:9777' }, { name: 'd' }]]);
});

it('keeps what was known while the API does not show all nodes', async () => {
  const { cluster, saved, follow, known } = await scene([B]);
  await follow();
  cluster.set([node('a')], 'it does not answer');
  await follow();
  expect([saved, known.list()]).toEqual([[], [B]]);
});

it('keeps where a node answers that the API does not show, and writes nothing twice', async () => {
  const { cluster, saved, follow, answers } = await scene();
  await answers('b', '10.0.0.2');
  await answers('b', '10.0.0.2');
  expect(saved).toEqual([[B]]);
  cluster.set([node('a'), node('b'), node('c', '10.0.0.3')]);
  await follow();
  for (const [name, host] of [
    ['b', '10.0.0.2'],
    ['c', '10.0.0.9'],
    ['gone', '10.0.0.8'],
  ] as const) {
    await answers(name, host);
    await follow();
  }
  expect(saved).toEqual([[B], [B, { name: 'c', address: '10.0.0.3:9777' }]]);
});
