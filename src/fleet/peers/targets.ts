import { type Endpoint, FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/network-types.ts';
import type { ClusterNode } from '../cluster.ts';
import type { StoredPeer } from './stored-peers.ts';

/** A place where another node may answer. */
export interface Target {
  readonly endpoint: Endpoint;
  /** The name of the Node that must be there; undefined for a fixed address. */
  readonly name?: string;
  /** The Kubernetes API tells when there is something new. Others are asked now and then. */
  readonly isAnnounced: boolean;
  /** Changes when the node announces something else. */
  readonly announced: string;
}

/** What the places are made of. */
export interface TargetSources {
  readonly self: string;
  readonly nodes: readonly ClusterNode[];
  /** Whether the API server answers: then a node that it does not name is gone. */
  readonly isComplete: boolean;
  /** `fleet.peers`. */
  readonly fixed: readonly string[];
  readonly stored: readonly StoredPeer[];
}

/** All places to ask, by endpoint. A node is asked where it says, else where it was last. */
export function targetsOf({ self, nodes, isComplete, fixed, stored }: TargetSources): ReadonlyMap<string, Target> {
  const targets = new Map<string, Target>();
  const announced = new Set<string>();
  for (const { name, endpoint, serves } of nodes) {
    if (name === self || endpoint === undefined) continue;
    announced.add(name);
    const target = { endpoint, name, isAnnounced: isComplete, announced: [...serves].sort().join(' ') };
    targets.set(formatEndpoint(endpoint), target);
  }
  const isGone = (name: string) => isComplete && !nodes.some((node) => node.name === name);
  for (const { name, address } of stored) {
    if (address === undefined || name === self || announced.has(name) || isGone(name)) continue;
    const endpoint = parseEndpoint(address, 0);
    if (endpoint === undefined || targets.has(address)) continue;
    targets.set(address, { endpoint, name, isAnnounced: false, announced: '' });
  }
  for (const text of fixed) {
    const endpoint = parseEndpoint(text, FLEET_PORT);
    if (endpoint === undefined || targets.has(formatEndpoint(endpoint))) continue;
    targets.set(formatEndpoint(endpoint), { endpoint, isAnnounced: false, announced: '' });
  }
  return targets;
}
