import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { endProcess } from '../../support/end-process.ts';
import { layKubeletFiles } from '../../support/fleet/kubelet-files.ts';
import { createNetwork, type Machine } from '../../support/fleet/namespaces.ts';
import { markdownTable } from '../markdown-table.ts';
import { peakMiBOf, residentMiBOf } from '../process-cost.ts';
import { sized } from '../size.ts';
import { type BenchCluster, makeCluster } from './cluster.ts';
import { CROWD_CHILD, type CrowdOrder } from './crowd-child.ts';

const IMAGES = { sharedMiB: [4], images: 4, ownMiB: sized(15, 1) };
const PEERS = sized(50, 6);
const TRANSFERS = 4;
const RUN_MS = sized(30_000, 1_000);
/** What the fleet process may take. */
const BUDGET_MIB = 120;

/**
 * Prints what the fleet process of a node takes that has many peers, and gives blobs to some of
 * them.
 */
export async function benchMemory(print: (text: string) => void): Promise<void> {
  const cluster = await makeCluster(IMAGES);
  const network = createNetwork();
  const [own, others] = [network.add(1), network.add(2)];
  const addresses = Array.from({ length: PEERS }, (_none, at) => `${others.address}:${9_801 + at}`);
  const peers = `peers = [${addresses.map((address) => `"${address}"`).join(', ')}]`;
  const node = cluster.node(1, own, { fleet: `max_clients = ${TRANSFERS}\n${peers}` });
  let crowd: Awaited<ReturnType<typeof startCrowd>> | undefined;
  try {
    cluster.plug(node);
    node.start();
    await node.ready();
    const pid = cluster.fleetPid(node);
    const before = residentMiBOf(pid);
    crowd = await startCrowd(cluster, others, { giver: node.address, addresses });
    const sentBefore = sentBytes(pid);
    await systemClock.sleep(RUN_MS, NEVER_ABORTED);
    const given = (sentBytes(pid) - sentBefore) / 2 ** 20 / (RUN_MS / 1_000);
    const peak = peakMiBOf(pid);
    print(
      `\n${PEERS} peers that answer and wait for news, and ${TRANSFERS} of them take blobs for ${RUN_MS / 1_000} s\n\n`,
    );
    const header = ['fleet process', 'memory alone', 'peak memory', 'budget', 'gives'];
    const text = (mib: number) => `${mib.toFixed(0)} MiB`;
    print(
      markdownTable(header, [
        [peak < BUDGET_MIB ? 'within' : 'ABOVE', text(before), text(peak), text(BUDGET_MIB), `${text(given)}/s`],
      ]),
    );
  } finally {
    await crowd?.stop();
    await node.kill();
    network.dispose();
    await cluster.dispose();
  }
}

async function startCrowd(
  { authority, base, bundle }: BenchCluster,
  machine: Machine,
  { giver, addresses }: { readonly giver: string; readonly addresses: readonly string[] },
) {
  const members = addresses.map((listen, at) => {
    const name = `peer-${at}`;
    const { kubeconfig, clientCa } = layKubeletFiles(join(base, name), authority.node(name), authority);
    return { name, listen, kubeconfig, clientCa };
  });
  const digests = bundle.contents.layers.map(({ digest }) => digest);
  const order: CrowdOrder = { giver, members, digests, takers: TRANSFERS };
  const file = join(base, 'crowd.json');
  writeFileSync(file, JSON.stringify(order));
  const [program = '', ...words] = [...machine.enter, process.execPath, process.argv[1] ?? '', CROWD_CHILD, file];
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(createInterface(child.stdout), 'line');
  return { stop: () => endProcess(child, 'SIGKILL') };
}

/** `wchar` of proc_pid_io(5): bytes written with write(2) and its kin, to files and sockets. */
function sentBytes(pid: number): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0);
}
