import { isDeepStrictEqual } from 'node:util';
import { formatEndpoint } from '../../domain/settings/value-types.ts';
import type { InTurn } from '../../platform/async/one-at-a-time.ts';
import type { Cluster } from '../cluster.ts';
import type { KnownPeer } from './peer.ts';
import type { PeerStore, StoredPeer } from './stored-peers.ts';

/** The nodes that are known after a restart, and what they are known from. */
export interface RememberedNodes {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble'>;
  readonly store: PeerStore;
  readonly inTurn: InTurn;
  stored: readonly StoredPeer[];
}

/** Whether the API server names all nodes: then one that it does not name is gone. */
export function isComplete({ trouble, nodes }: Pick<Cluster, 'nodes' | 'trouble'>): boolean {
  return trouble() === undefined && nodes().length > 0;
}

/**
 * Stores all nodes that the Kubernetes API names. This node waits for them after a restart too,
 * while the API does not answer.
 */
export async function rememberNodes(known: RememberedNodes, signal: AbortSignal): Promise<void> {
  const { cluster, stored } = known;
  if (!isComplete(cluster)) return;
  const before = new Map(stored.map((one) => [one.name, one.address]));
  const nodes = cluster.nodes().filter(({ name }) => name !== cluster.self());
  const next = nodes.map(({ name, endpoint }): StoredPeer => {
    const address = endpoint === undefined ? before.get(name) : formatEndpoint(endpoint);
    return { name, ...(address !== undefined && { address }) };
  });
  if (!isDeepStrictEqual(next, stored)) await store(known, next, signal);
}

/**
 * Stores where a node has answered, unless the Kubernetes API tells where it is, or that it is
 * gone.
 */
export async function rememberPeer(known: RememberedNodes, peer: KnownPeer, signal: AbortSignal): Promise<void> {
  const { cluster, stored } = known;
  const name = peer.target.name ?? peer.node;
  const address = formatEndpoint(peer.target.endpoint);
  if (name === undefined || name === cluster.self()) return;
  const node = cluster.nodes().find((one) => one.name === name);
  if (isComplete(cluster) && (node === undefined || node.endpoint !== undefined)) return;
  if (stored.some((one) => one.name === name && one.address === address)) return;
  const others = stored.filter((one) => one.name !== name && one.address !== address);
  await store(known, [...others, { name, address }], signal);
}

async function store(known: RememberedNodes, next: readonly StoredPeer[], signal: AbortSignal): Promise<void> {
  known.stored = next.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  await known.inTurn(signal, () => known.store.save(known.stored, signal));
}
