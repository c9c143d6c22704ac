import type { FleetNode } from '../../domain/fleet/fleet-view.ts';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { Search } from '../../domain/fleet/search.ts';
import type { FleetDocument } from '../../offers/documents.ts';
import type { Cluster } from '../cluster.ts';
import type { Peers } from './peers.ts';
import type { Silence } from './silence.ts';
import type { ToldStatus, WrittenStatuses } from './written-statuses.ts';

/** What `/v1/fleet` is made of. */
export interface FleetParts {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble'>;
  readonly peers: Pick<Peers, 'list' | 'statuses' | 'nodeNames'>;
  readonly written: WrittenStatuses;
  readonly silence: Pick<Silence, 'seenAt' | 'isAbsent'>;
  readonly ownStatus: () => NodeStatus | undefined;
  readonly search: () => Search;
}

/**
 * All that the daemon is told. A node tells its status on the wire, and writes it to the API
 * server. What came last counts: either way may be blocked, and a node that needs nothing asks
 * nobody.
 */
export function fleetDocument(parts: FleetParts): FleetDocument {
  const { cluster, peers, written, silence, ownStatus, search } = parts;
  const self = cluster.self();
  const told = peers.statuses();
  written.look();
  const names = new Set([self, ...cluster.nodes().map(({ name }) => name), ...peers.nodeNames()]);
  const nodes = [...names].sort().map((name): FleetNode => {
    const status = name === self ? ownStatus() : later(told.get(name), written.of(name))?.status;
    const seenAt = silence.seenAt(name);
    return {
      name,
      ...(status !== undefined && { status }),
      ...(seenAt !== undefined && { seenAt }),
      isAbsent: name !== self && silence.isAbsent(name),
    };
  });
  const apiTrouble = cluster.trouble();
  return {
    version: 1,
    self,
    nodes,
    peers: peers.list(),
    ...(apiTrouble !== undefined && { apiTrouble }),
    search: search(),
  };
}

function later(one: ToldStatus | undefined, other: ToldStatus | undefined): ToldStatus | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.atMs > other.atMs ? one : other;
}
