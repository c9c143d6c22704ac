import type { Cluster } from '../../fleet/cluster.ts';

/** A cluster of which only the own node is known: peers come from `fleet.peers` and the last run. */
export function createNodeCluster(self: string): Cluster {
  return {
    self: () => self,
    address: () => undefined,
    nodes: () => [],
    trouble: () => 'it is not read yet',
    onChange: () => () => undefined,
    run: async () => undefined,
  };
}
