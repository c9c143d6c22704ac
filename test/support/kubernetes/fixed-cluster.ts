import { once } from 'node:events';
import type { Cluster, ClusterNode } from '../../../src/fleet/trouble.ts';
import { type Listeners, listen, notifyAll } from '../../../src/platform/subscription.ts';

/** A cluster that a test tells what it knows, for what follows a cluster. */
export interface FixedCluster extends Cluster {
  /** Replaces all nodes, and why that is not everything. */
  set(nodes: readonly ClusterNode[], trouble?: string): void;
}

/** A {@link FixedCluster} without other nodes. */
export function fixedCluster(self: string, address?: string): FixedCluster {
  const listeners: Listeners = new Set();
  let known: { nodes: readonly ClusterNode[]; trouble: string | undefined } = { nodes: [], trouble: undefined };
  return {
    self: () => self,
    address: () => address,
    readLabels: () => [],
    isRemoved: () => false,
    nodes: () => known.nodes,
    trouble: () => known.trouble,
    isOld: () => false,
    need: () => undefined,
    meet: () => undefined,
    onChange: (listener) => listen(listeners, listener),
    run: async (signal) => {
      if (!signal.aborted) await once(signal, 'abort');
    },
    set: (nodes, trouble) => {
      known = { nodes, trouble };
      notifyAll(listeners);
    },
  };
}
