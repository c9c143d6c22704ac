import { createNetwork } from '../../support/fleet/namespaces.ts';
import { markdownTable } from '../markdown-table.ts';
import { type BenchCluster, limitTo, makeCluster, preloadMs } from './cluster.ts';

const MBIT = 80;
const IMAGES = { sharedMiB: [4], images: 4, ownMiB: 15 };
/** Nodes that take, beside the one with the stick. */
const TAKERS = [1, 3, 7, 9];

/** Prints how long a stick in one node takes to reach all others, with and without kept blobs. */
export async function benchSpread(print: (text: string) => void): Promise<void> {
  const cluster = await makeCluster(IMAGES);
  try {
    const onceMs = (8 * cluster.sizeBytes) / (MBIT * 1_000);
    const rows: string[][] = [];
    for (const takers of TAKERS) {
      const star = await spreadMs(cluster, takers, 'metadata');
      const tree = await spreadMs(cluster, takers, 'kept');
      const doublings = Math.ceil(Math.log2(takers + 1));
      const text = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
      rows.push([
        `${takers + 1}`,
        text(star),
        text(takers * onceMs),
        text(tree),
        text(doublings * onceMs),
        (tree / (doublings * onceMs)).toFixed(2),
      ]);
    }
    print(`\n${(cluster.sizeBytes / 2 ** 20).toFixed(0)} MiB, each node sends ${MBIT} Mbit/s\n\n`);
    const header = ['nodes', 'star', 'star at the link', 'blobs kept', 'doubling tree', 'against the tree'];
    print(markdownTable(header, rows));
  } finally {
    await cluster.dispose();
  }
}

async function spreadMs(cluster: BenchCluster, takers: number, blobs: 'metadata' | 'kept'): Promise<number> {
  const network = createNetwork();
  const hosts = Array.from({ length: takers + 1 }, (_none, at) => at + 1);
  const peers = `peers = [${hosts.map((host) => `"10.77.0.${host}"`).join(', ')}]`;
  const nodes = hosts.map((host) => {
    const machine = network.add(host);
    limitTo(machine, MBIT);
    return cluster.node(host, machine, { fleet: peers, other: `[retention]\nblobs = "${blobs}"` });
  });
  try {
    const [giver, ...others] = nodes;
    if (giver === undefined) throw new Error('there is a giver');
    cluster.plug(giver);
    giver.start();
    await giver.ready(120_000);
    for (const node of others) node.start();
    await Promise.all(others.map((node) => node.ready(600_000)));
    return await preloadMs(others);
  } finally {
    await Promise.all(nodes.map((node) => node.kill()));
    network.dispose();
  }
}
