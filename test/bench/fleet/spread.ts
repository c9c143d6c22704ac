import { execFileSync } from 'node:child_process';
import { createNetwork, type Machine } from '../../support/fleet/namespaces.ts';
import { markdownTable } from '../markdown-table.ts';
import { sized } from '../size.ts';
import { type BenchCluster, limitTo, makeCluster, preloadMs } from './cluster.ts';
import { pullFromRegistry } from './registry-pull.ts';

const MBIT = 80;
const IMAGES = { sharedMiB: [4], images: 4, ownMiB: sized(15, 1) };
/** Nodes that take, beside the one with the stick. */
const TAKERS = sized([1, 3, 7, 9, 15], [1]);

/** Prints how long a stick in one node takes to reach all others, with and without kept blobs. */
export async function benchSpread(print: (text: string) => void): Promise<void> {
  const cluster = await makeCluster(IMAGES);
  try {
    const onceMs = (8 * cluster.sizeBytes) / (MBIT * 1_000);
    const rows: string[][] = [];
    for (const takers of TAKERS) {
      const star = await spreadOver(cluster, takers, 'metadata');
      const tree = await spreadOver(cluster, takers, 'kept');
      const registryMs = await pullToEach(cluster, takers);
      const doublings = Math.ceil(Math.log2(takers + 1));
      const text = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
      rows.push([
        `${takers + 1}`,
        text(star.ms),
        text(takers * onceMs),
        text(tree.ms),
        text(doublings * onceMs),
        (tree.ms / (doublings * onceMs)).toFixed(2),
        text(registryMs),
        `${(tree.firstSent / 2 ** 20).toFixed(0)} MiB`,
      ]);
    }
    print(`\n${(cluster.sizeBytes / 2 ** 20).toFixed(0)} MiB, each node sends ${MBIT} Mbit/s\n\n`);
    const times = [
      'star',
      'star at the link',
      'blobs kept',
      'doubling tree',
      'against the tree',
      '`skopeo copy` to each',
    ];
    print(markdownTable(['nodes', ...times, 'sent by the first node'], rows));
  } finally {
    await cluster.dispose();
  }
}

/** One spread of the bundle. */
interface Spread {
  /** From the first adoption until the last of them is ready. */
  readonly ms: number;
  /** Bytes that the node with the stick sent, with those of TCP and TLS. */
  readonly firstSent: number;
}

async function spreadOver(cluster: BenchCluster, takers: number, blobs: 'metadata' | 'kept'): Promise<Spread> {
  const network = createNetwork();
  const hosts = Array.from({ length: takers + 1 }, (_none, at) => at + 1);
  const peers = `peers = [${hosts.map((host) => `"10.77.0.${host}"`).join(', ')}]`;
  const machines = hosts.map((host) => network.add(host));
  const nodes = machines.map((machine, at) => {
    const host = at + 1;
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
    return { ms: await preloadMs(others), firstSent: sentBy(machines[0]) };
  } finally {
    await Promise.all(nodes.map((node) => node.kill()));
    network.dispose();
  }
}

/** The same images from a central registry, which sends at the same rate, to each of the nodes. */
async function pullToEach(cluster: BenchCluster, takers: number): Promise<number> {
  const network = createNetwork();
  const server = network.add(1);
  const clients = Array.from({ length: takers }, (_none, at) => network.add(at + 2));
  limitTo(server, MBIT);
  try {
    return await pullFromRegistry(cluster, server, clients);
  } finally {
    network.dispose();
  }
}

function sentBy(machine: Machine | undefined): number {
  const [program = '', ...words] = [...(machine?.enter ?? []), 'cat', '/sys/class/net/eth0/statistics/tx_bytes'];
  return Number(execFileSync(program, words));
}
