import { once } from 'node:events';
import { expect, it } from 'vitest';
import type { KnownPeer } from '../../../../src/fleet/peers/peer.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

/** Two nodes announce one address, as where a machine took over that of another one. */
it('never counts the report of one node for another one that answers at its address', async () => {
  const stop = new AbortController();
  let peer: KnownPeer | undefined;
  let isFirst = true;
  const cluster = fixedCluster('self');
  const endpoint = { host: '10.0.0.1', port: 9777 };
  cluster.set(['worker-1', 'worker-2'].map((name) => ({ name, endpoint, serves: [] })));
  const peers = fixedPeers({
    clock: systemClock,
    cluster,
    // The certificate decides who it is.
    identity: () => undefined,
    request: async (asked, _watch, signal) => {
      peer = asked;
      if (!isFirst) return once(signal, 'abort').then(() => undefined);
      isFirst = false;
      asked.isAnsweredBy('worker-1');
      return {
        document: { version: 1, bundles: [], node: { name: 'worker-1', status: { version: 1, releases: [] } } },
        etag: 'x',
      };
    },
  });
  const running = peers.run(stop.signal);
  try {
    await eventually(() => expect([...peers.statuses().keys()]).toEqual(['worker-1']));
    peer?.isAnsweredBy('worker-2');
    expect([peer?.name, peer?.etag, [...peers.statuses().keys()]]).toEqual(['worker-2', undefined, []]);
  } finally {
    stop.abort();
    await running;
  }
});
