import { isDeepStrictEqual } from 'node:util';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Cluster, ClusterNode } from '../cluster.ts';

/** A status of a node, and when it came here. */
export interface ToldStatus {
  /** Undefined: the node took it back. */
  readonly status: NodeStatus | undefined;
  /** Monotonic milliseconds. */
  readonly atMs: number;
}

/** What the other nodes wrote into their Nodes, and when this node read it. */
export interface WrittenStatuses {
  /** As of the last look. Undefined for a node that wrote nothing yet. */
  of(node: string): ToldStatus | undefined;
  /** Reads the cluster, which may have changed. */
  look(): void;
}

/** The adapters of {@link createWrittenStatuses}. */
export interface WrittenStatusesOptions {
  readonly cluster: Pick<Cluster, 'nodes' | 'self'>;
  readonly clock: Clock;
  /** Told for each other node that wrote something new since it was read first. */
  readonly onHeard: (node: string) => void;
}

interface Seen {
  readonly node: ClusterNode;
  readonly told: ToldStatus | undefined;
}

/** Notes when the annotations of each node change. */
export function createWrittenStatuses(options: WrittenStatusesOptions): WrittenStatuses {
  let seen: ReadonlyMap<string, Seen> = new Map();
  const look = () => {
    const before = seen;
    seen = new Map(options.cluster.nodes().map((node) => [node.name, next(node, before.get(node.name), options)]));
  };
  return {
    of: (node) => seen.get(node)?.told,
    look,
  };
}

function next(node: ClusterNode, before: Seen | undefined, options: WrittenStatusesOptions): Seen {
  const { cluster, clock, onHeard } = options;
  if (before !== undefined && isDeepStrictEqual(before.node, node)) return before;
  // What is read first may have been written long ago.
  if (before !== undefined && node.name !== cluster.self()) onHeard(node.name);
  const isSame = isDeepStrictEqual(before?.node.status, node.status);
  return { node, told: isSame ? before?.told : { status: node.status, atMs: clock.monotonic() } };
}
