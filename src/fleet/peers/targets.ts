import { type Endpoint, FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import type { ClusterNode } from '../cluster.ts';
import type { StoredPeer } from './stored-peers.ts';

/** A place where another node may answer. */
export interface Target {
  readonly endpoint: Endpoint;
  /** The name of the Node that must be there; undefined where any other one may be. */
  readonly name?: string | undefined;
  /**
   * The names of the Nodes of which one must be there; none for a fixed address. There is more than
   * one where a Node outlived its machine and its address was given to another, or where one claims
   * the address of another.
   */
  readonly names: readonly string[];
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

/**
 * All places to ask, by endpoint. A node is asked where it says, else where it was last. Of several
 * nodes that name the same place none displaces the others: the certificate tells which one it is.
 */
export function targetsOf(sources: TargetSources): ReadonlyMap<string, Target> {
  const { self, nodes, isComplete, fixed, stored } = sources;
  const targets = new Map<string, Target>();
  const own = nodes.find(({ name }) => name === self)?.endpoint;
  const ownAddress = own && formatEndpoint(own);
  const announced = new Set<string>();
  for (const { name, endpoint, serves } of nodes) {
    if (name === self || endpoint === undefined || formatEndpoint(endpoint) === ownAddress) continue;
    announced.add(name);
    add(targets, { endpoint, names: [name], isAnnounced: isComplete, announced: [...serves].sort().join(' ') });
  }
  const isGone = (name: string) => isComplete && !nodes.some((node) => node.name === name);
  for (const { name, address } of stored) {
    if (address === undefined || name === self || announced.has(name) || isGone(name)) continue;
    const endpoint = parseEndpoint(address, 0);
    if (endpoint === undefined) continue;
    add(targets, { endpoint, names: [name], isAnnounced: false, announced: '' });
  }
  for (const text of fixed) {
    const endpoint = parseEndpoint(text, FLEET_PORT);
    if (endpoint === undefined || targets.has(formatEndpoint(endpoint))) continue;
    add(targets, { endpoint, names: [], isAnnounced: false, announced: '' });
  }
  return targets;
}

function add(targets: Map<string, Target>, target: Omit<Target, 'name'>): void {
  const address = formatEndpoint(target.endpoint);
  const other = targets.get(address);
  const names = [...new Set([...(other?.names ?? []), ...target.names])].sort();
  const [name] = names.length === 1 ? names : [];
  targets.set(address, {
    endpoint: target.endpoint,
    name,
    names,
    isAnnounced: target.isAnnounced || other?.isAnnounced === true,
    announced: [other?.announced, target.announced].filter(Boolean).sort().join(' '),
  });
}
