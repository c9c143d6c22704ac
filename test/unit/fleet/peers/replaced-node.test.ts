import { afterEach, expect, it } from 'vitest';
import type { KnownPeer } from '../../../../src/fleet/peers/peer.ts';
import type { Peers } from '../../../../src/fleet/peers/peers.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fastClock } from '../../../support/kubernetes/fast-clock.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const STATUS = { version: 1, releases: [] } as const;
const ends: (() => Promise<void>)[] = [];
afterEach(() => Promise.all(ends.splice(0).map((end) => end())));

/**
 * These nodes announce one address, as where a machine took over that of another one.
 *
 * @param query is called before each answer, which is always that of worker-1
 */
function play(names: readonly string[], query: (peer: KnownPeer, number: number) => void, hasIdentity = true): Peers {
  const stop = new AbortController();
  const cluster = fixedCluster('self');
  const endpoint = { host: '10.0.0.1', port: 9777 };
  cluster.set(
    names.map((name) => ({ name, endpoint, serves: [] })),
    'it is away',
  );
  let number = 0;
  const peers = fixedPeers({
    clock: fastClock(500),
    cluster,
    identity: hasIdentity ? () => undefined : undefined,
    request: async (peer) => {
      number += 1;
      query(peer, number);
      const node = { name: 'worker-1', status: STATUS };
      return { document: { version: 1, bundles: [], node }, etag: `${number}` };
    },
  });
  const running = peers.run(stop.signal);
  ends.push(async () => {
    stop.abort();
    await running;
  });
  return peers;
}

it('never counts the report of one node for another one that answers at its address', async () => {
  let peer: KnownPeer | undefined;
  const peers = play(['worker-1', 'worker-2'], (asked) => {
    peer = asked;
    asked.isAnsweredBy('worker-1');
  });
  await eventually(() => expect([...peers.statuses().keys()]).toEqual(['worker-1']));
  peer?.isAnsweredBy('worker-2');
  expect([peer?.name, peer?.etag, [...peers.statuses().keys()]]).toEqual(['worker-2', undefined, []]);
});

it('takes no answer that came while another node began to answer there', async () => {
  const peers = play(['worker-1', 'worker-2'], (asked, number) => {
    asked.isAnsweredBy(number === 1 ? 'worker-1' : 'worker-2');
    if (number > 2) throw new Error('no more answers');
  });
  const seen = new Set<string>();
  await eventually(() => {
    for (const name of peers.statuses().keys()) seen.add(name);
    expect(peers.list()[0]?.trouble).toContain('no more answers');
  });
  expect([...seen]).not.toContain('worker-2');
});

it('takes no report of a node that gives itself another name than the cluster', async () => {
  let queries = 0;
  const count = () => {
    queries += 1;
  };
  const peers = play(['worker-2'], count, false);
  await eventually(() => expect(queries).toBeGreaterThan(1));
  expect(peers.list().map(({ name, trouble }) => [name, trouble])).toEqual([['worker-2', undefined]]);
  expect([...peers.statuses().keys()]).toEqual([]);
});
