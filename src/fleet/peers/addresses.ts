import { FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/addresses.ts';
import type { ClusterNode } from '../trouble.ts';
import { exclusionText, type PeerBudgets } from '../wire/peer-budgets.ts';
import type { Target } from './peer.ts';
import type { StoredPeer } from './stored-peers.ts';

/** Where nodes announce that they are. One that moves too often is left out. */
export class Addresses {
  private places = new Map<string, string>();

  constructor(private readonly budgets: PeerBudgets) {}

  /** The nodes, without the address of those that are left out. */
  follow(nodes: readonly ClusterNode[]): readonly ClusterNode[] {
    const places = new Map<string, string>();
    for (const { name, endpoint } of nodes) {
      const known = this.places.get(name);
      const place = endpoint === undefined ? known : formatEndpoint(endpoint);
      if (place === undefined) continue;
      if (known !== undefined && known !== place) this.budgets.charge(name, 'address', 1);
      places.set(name, place);
    }
    this.places = places;
    return nodes.map((node) => {
      if (this.budgets.exclusion(node.name) === undefined) return node;
      const { endpoint: _, ...others } = node;
      return others;
    });
  }

  /** Why nothing is requested of a node, by name. */
  leftOut(): ReadonlyMap<string, { readonly address: string; readonly why: string }> {
    const out = [...this.places].flatMap(([name, address]) => {
      const exclusion = this.budgets.exclusion(name);
      return exclusion === undefined ? [] : ([[name, { address, why: exclusionText(exclusion) }]] as const);
    });
    return new Map(out);
  }
}

interface TargetSources {
  readonly self: string;
  readonly nodes: readonly ClusterNode[];
  /** Then a node that the API server does not name is gone. */
  readonly isComplete: boolean;
  /** `fleet.peers`. */
  readonly fixed: readonly string[];
  readonly stored: readonly StoredPeer[];
}

/**
 * All places by endpoint. A node has its announced address, else its last one. Nodes with the same
 * place don't displace each other: the certificate decides.
 */
export function targetsOf(sources: TargetSources): ReadonlyMap<string, Target> {
  const { self, nodes, isComplete, fixed, stored } = sources;
  const targets = new Map<string, Target>();
  const ownEndpoint = nodes.find(({ name }) => name === self)?.endpoint;
  const ownAddress = ownEndpoint && formatEndpoint(ownEndpoint);
  const announced = new Set<string>();
  for (const { name, endpoint, serves } of nodes) {
    if (name === self || endpoint === undefined || formatEndpoint(endpoint) === ownAddress) continue;
    announced.add(name);
    add(targets, { endpoint, names: [name], isAnnounced: isComplete, serves });
  }
  const shown = new Set(nodes.map(({ name }) => name));
  for (const { name, address } of stored) {
    if (address === undefined || name === self || announced.has(name)) continue;
    if (isComplete && !shown.has(name)) continue;
    const endpoint = parseEndpoint(address, 0);
    if (endpoint === undefined) continue;
    add(targets, { endpoint, names: [name], isAnnounced: false, serves: [] });
  }
  for (const text of fixed) {
    const endpoint = parseEndpoint(text, FLEET_PORT);
    if (endpoint === undefined || targets.has(formatEndpoint(endpoint))) continue;
    add(targets, { endpoint, names: [], isAnnounced: false, serves: [] });
  }
  return targets;
}

function add(targets: Map<string, Target>, target: Omit<Target, 'name'>): void {
  const address = formatEndpoint(target.endpoint);
  const other = targets.get(address);
  const names = [...new Set([...(other?.names ?? []), ...target.names])].sort();
  const [name] = names.length === 1 ? names : [];
  const serves = [...new Set([...(other?.serves ?? []), ...target.serves])];
  targets.set(address, {
    endpoint: target.endpoint,
    name,
    names,
    isAnnounced: target.isAnnounced || other?.isAnnounced === true,
    serves: serves.sort(),
  });
}
