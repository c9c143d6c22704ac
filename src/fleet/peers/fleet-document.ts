import type { FleetNode } from '../../domain/fleet/fleet-view.ts';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { FleetDocument } from '../../offers/documents.ts';
import type { Cluster } from '../cluster.ts';
import type { Peers } from './peers.ts';
import type { Silence } from './silence.ts';

/** What `/v1/fleet` is made of. */
export interface FleetParts {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble'>;
  readonly peers: Pick<Peers, 'list' | 'statuses' | 'nodeNames'>;
  readonly silence: Pick<Silence, 'seenAt' | 'isAbsent'>;
  readonly ownStatus: () => NodeStatus | undefined;
}

/**
 * All that the daemon is told. What a node says on the wire is newer than what it wrote to the API
 * server, which it does at most once a minute.
 */
export function fleetDocument({ cluster, peers, silence, ownStatus }: FleetParts): FleetDocument {
  const self = cluster.self();
  const told = peers.statuses();
  const written = new Map(cluster.nodes().map(({ name, status }) => [name, status]));
  const names = new Set([self, ...written.keys(), ...peers.nodeNames()]);
  const nodes = [...names].sort().map((name): FleetNode => {
    const status = name === self ? ownStatus() : (told.get(name) ?? written.get(name));
    const seenAt = silence.seenAt(name);
    return {
      name,
      ...(status !== undefined && { status }),
      ...(seenAt !== undefined && { seenAt }),
      isAbsent: name !== self && silence.isAbsent(name),
    };
  });
  const apiTrouble = cluster.trouble();
  return { version: 1, self, nodes, peers: peers.list(), ...(apiTrouble !== undefined && { apiTrouble }) };
}
