import { isDeepStrictEqual } from 'node:util';
import type { FleetNode, NodeStatus, Search } from '../../domain/fleet/node-status.ts';
import type { FleetDocument } from '../../offers/documents.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Cluster, ClusterNode } from '../trouble.ts';
import type { Peers, ReceivedStatus } from './peer.ts';
import type { Silence } from './targets.ts';

interface FleetParts {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble'>;
  readonly peers: Pick<Peers, 'list' | 'statuses' | 'nodeNames'>;
  readonly written: WrittenStatuses;
  readonly silence: Pick<Silence, 'seenAt' | 'isAbsent'>;
  readonly ownStatus: () => NodeStatus | undefined;
  readonly search: () => Search;
}

/**
 * Reports the fleet to the daemon. A node reports its status on the wire and to the API server; the
 * later one counts, since either way may be blocked, and a node that needs nothing queries nobody.
 */
export function fleetDocument(parts: FleetParts): FleetDocument {
  const { cluster, peers, written, silence, ownStatus, search } = parts;
  const self = cluster.self();
  const received = peers.statuses();
  written.look();
  const names = new Set([self, ...cluster.nodes().map(({ name }) => name), ...peers.nodeNames()]);
  const nodes = [...names].sort().map((name): FleetNode => {
    const status = name === self ? ownStatus() : later(received.get(name), written.of(name))?.status;
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

function later(one: ReceivedStatus | undefined, other: ReceivedStatus | undefined): ReceivedStatus | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.atMs > other.atMs ? one : other;
}

/** What other nodes wrote into their Nodes, and when this node read it. */
export interface WrittenStatuses {
  /** Undefined for a node that wrote nothing yet. */
  of(node: string): ReceivedStatus | undefined;
  /** Reads the cluster, which may have changed. */
  look(): void;
}

interface WrittenStatusesOptions {
  readonly cluster: Pick<Cluster, 'nodes' | 'self'>;
  readonly clock: Clock;
  /** Called for each other node whose annotations changed since they were first read. */
  readonly onHeard: (node: string) => void;
}

interface Seen {
  readonly node: ClusterNode;
  readonly received: ReceivedStatus | undefined;
}

export function createWrittenStatuses(options: WrittenStatusesOptions): WrittenStatuses {
  let seen: ReadonlyMap<string, Seen> = new Map();
  const look = () => {
    const before = seen;
    seen = new Map(options.cluster.nodes().map((node) => [node.name, next(node, before.get(node.name), options)]));
  };
  return {
    of: (node) => seen.get(node)?.received,
    look,
  };
}

function next(node: ClusterNode, before: Seen | undefined, options: WrittenStatusesOptions): Seen {
  const { cluster, clock, onHeard } = options;
  if (before !== undefined && isDeepStrictEqual(before.node, node)) return before;
  // The first text may be old.
  if (before !== undefined && node.name !== cluster.self()) onHeard(node.name);
  const isSame = isDeepStrictEqual(before?.node.status, node.status);
  return { node, received: isSame ? before?.received : { status: node.status, atMs: clock.monotonic() } };
}
