import { execFileSync } from 'node:child_process';
import { createNetwork } from '../../support/fleet/namespaces.ts';
import type { RealNode } from '../../support/fleet/real-node.ts';
import { markdownTable } from '../markdown-table.ts';
import { peakMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import { type BenchCluster, limitTo, makeCluster, preloadMs } from './cluster.ts';
import { pullFromRegistry } from './registry-pull.ts';

const MBIT = 200;
const IMAGES = { sharedMiB: [4], images: 4, ownMiB: sized(60, 1) };

/**
 * Prints how long one node takes from another one over a link, beside a registry over the same
 * link.
 */
export async function benchLink(print: (text: string) => void): Promise<void> {
  const cluster = await makeCluster(IMAGES);
  try {
    const bytes = cluster.sizeBytes;
    const idealMs = (8 * bytes) / (MBIT * 1_000);
    const rows = [
      await peerRow(cluster, 'TLS', `${MBIT} Mbit/s`, 'auth = "kubelet"'),
      await peerRow(cluster, 'plain', `${MBIT} Mbit/s`, 'auth = "none"'),
      await registryRow(cluster),
      await peerRow(cluster, 'TLS', 'not limited', 'auth = "kubelet"'),
      await peerRow(cluster, 'plain', 'not limited', 'auth = "none"'),
    ];
    const header = ['from', 'link', 'time', 'MiB/s', 'time against the link', 'peak memory of the giver'];
    print(`\n${(bytes / 2 ** 20).toFixed(0)} MiB in ${IMAGES.images} images\n\n`);
    print(
      markdownTable(
        header,
        rows.map(({ from, link, ms, peakMiB }) => [
          from,
          link,
          `${(ms / 1_000).toFixed(1)} s`,
          (bytes / 2 ** 20 / (ms / 1_000)).toFixed(1),
          link === 'not limited' ? '' : (ms / idealMs).toFixed(2),
          peakMiB === undefined ? '' : `${peakMiB.toFixed(0)} MiB`,
        ]),
      ),
    );
  } finally {
    await cluster.dispose();
  }
}

interface Row {
  readonly from: string;
  readonly link: string;
  readonly ms: number;
  /** Of its fleet process. */
  readonly peakMiB?: number;
}

async function peerRow(cluster: BenchCluster, kind: string, link: string, auth: string): Promise<Row> {
  const network = createNetwork();
  const machines = [network.add(1), network.add(2)];
  const [giver, taker] = machines.map((machine, at) =>
    cluster.node(at + 1, machine, { fleet: `${auth}\npeers = ["10.77.0.${2 - at}"]` }),
  ) as [RealNode, RealNode];
  try {
    if (link !== 'not limited') limitTo(machines[0], MBIT);
    cluster.plug(giver);
    giver.start();
    await giver.ready(120_000);
    taker.start();
    await taker.ready(180_000);
    return { from: `a node, ${kind}`, link, ms: await preloadMs([taker]), peakMiB: peakMiBOf(cluster.fleetPid(giver)) };
  } finally {
    await Promise.all([giver.kill(), taker.kill()]);
    network.dispose();
  }
}

/** The images pulled one after the other, as from a central registry. */
async function registryRow(cluster: BenchCluster): Promise<Row> {
  const network = createNetwork();
  const [server, client] = [network.add(1), network.add(2)];
  limitTo(server, MBIT);
  try {
    const ms = await pullFromRegistry(cluster, server, [client]);
    return { from: 'a registry, `skopeo copy`', link: `${MBIT} Mbit/s`, ms };
  } finally {
    network.dispose();
    execFileSync('sync');
  }
}
