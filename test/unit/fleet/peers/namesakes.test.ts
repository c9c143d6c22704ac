import { expect, it } from 'vitest';
import type { Identity } from '../../../../src/fleet/identity/identity.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { eventually } from '../../../support/eventually.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';

const OWN = `sha256:${'a'.repeat(64)}`;
const [B, C] = ['b', 'c'].map((digit) => `sha256:${digit.repeat(64)}`) as [string, string];

/** @param answers name and key by address; this node is host-1 on 10.0.0.4 */
async function namesakes(answers: Readonly<Record<string, readonly [string, string]>>): Promise<string | undefined> {
  const stop = new AbortController();
  const fingerprint = OWN;
  const keys = new Map([OWN, B, C].map((key) => [key, 'any']));
  const peers = fixedPeers({
    clock: systemClock,
    cluster: fixedCluster('host-1'),
    identity: () => ({ node: 'host-1', keys, fingerprint }) as unknown as Identity,
    settings: { peers: Object.keys(answers), listen: '10.0.0.4', activate: 'each', absent: 3_600_000, exclude: [] },
    request: async (peer) => {
      const [node, certificate] = answers[peer.target.endpoint.host] ?? ['', ''];
      peer.isAnsweredBy(node);
      peer.certificate = certificate;
      queried += 1;
      return undefined;
    },
  });
  let queried = 0;
  const running = peers.run(stop.signal);
  try {
    await eventually(() => expect(queried).toBe(Object.keys(answers).length));
    return peers.namesakes();
  } finally {
    stop.abort();
    await running;
  }
}

it('names no host that has several addresses, nor its own address', async () => {
  const own = ['host-1', OWN] as const;
  const two = ['host-2', B] as const;
  expect(await namesakes({ '10.0.0.4': own, '10.0.0.5': two, '10.0.0.6': two })).toBeUndefined();
});

it('names two hosts that have one name in the list, and which is this node', async () => {
  const text = ' are both host-1: give each host a name of its own in fleet.keys_file';
  expect(await namesakes({ '10.0.0.5': ['host-1', B] })).toBe(`this node and 10.0.0.5:9777${text}`);
  const others = await namesakes({ '10.0.0.5': ['host-2', B], '10.0.0.6': ['host-2', C] });
  expect(others).toContain('10.0.0.5:9777 and 10.0.0.6:9777 are both host-2');
});

it('names a host that has the key of this node, as of a cloned disk', async () => {
  const text = await namesakes({ '10.0.0.5': ['host-1', OWN] });
  expect(text).toContain('10.0.0.5:9777 has the key of this node: delete key.pem');
});
