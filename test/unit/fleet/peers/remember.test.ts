import { expect, it } from 'vitest';
import { createPeer, rememberNodes, rememberPeer, type StoredPeer } from '../../../../src/fleet/peers/peer.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { oneAtATime } from '../../../../src/platform/async/concurrency.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

/** Node `a`. */
function scene(stored: readonly StoredPeer[] = []) {
  const cluster = fixedCluster('a');
  const saved: (readonly StoredPeer[])[] = [];
  const store = { load: async () => [], save: async (peers: readonly StoredPeer[]) => void saved.push(peers) };
  const known = { cluster, store, inTurn: oneAtATime(), stored };
  const answers = (name: string, host: string) => {
    const target = { name, endpoint: { host, port: 9777 }, names: [name], isAnnounced: false, announced: '' };
    const peer = createPeer(target, { identity: undefined, clock: systemClock, onHeard: () => undefined }, 0);
    return rememberPeer(known, peer, NEVER_ABORTED);
  };
  return { cluster, known, saved, answers, look: () => rememberNodes(known, NEVER_ABORTED) };
}

const node = (name: string, host?: string) => ({
  name,
  serves: [],
  ...(host !== undefined && { endpoint: { host, port: 9777 } }),
});
const B = { name: 'b', address: '10.0.0.2:9777' };

it('keeps all nodes that the Kubernetes API names, with their addresses where it tells', async () => {
  const { cluster, saved, look } = scene([B, { name: 'gone', address: '10.0.0.8:9777' }]);
  cluster.set([node('a', '10.0.0.1'), node('b'), node('c', '10.0.0.3'), node('d')]);
  await look();
  await look();
  expect(saved).toEqual([[B, { name: 'c', address: '10.0.0.3:9777' }, { name: 'd' }]]);
});

it('keeps what was known while the API does not tell all nodes', async () => {
  const { cluster, saved, look, known } = scene([B]);
  await look();
  cluster.set([node('a')], 'it does not answer');
  await look();
  expect([saved, known.stored]).toEqual([[], [B]]);
});

it('keeps where a node answers that the API does not tell, and writes nothing twice', async () => {
  const { cluster, saved, look, answers } = scene();
  await answers('b', '10.0.0.2');
  await answers('b', '10.0.0.2');
  expect(saved).toEqual([[B]]);
  cluster.set([node('a'), node('b'), node('c', '10.0.0.3')]);
  await look();
  for (const [name, host] of [
    ['b', '10.0.0.2'],
    ['c', '10.0.0.9'],
    ['gone', '10.0.0.8'],
  ] as const) {
    await answers(name, host);
    await look();
  }
  expect(saved).toEqual([[B], [B, { name: 'c', address: '10.0.0.3:9777' }]]);
});
