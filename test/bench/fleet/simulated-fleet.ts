import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { NodeStatus } from '../../../src/domain/fleet/node-status.ts';
import { hexOf } from '../../../src/domain/model/digest.ts';
import type { OffersDocument } from '../../../src/fleet/wire/documents.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { fixedPeers } from '../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../support/kubernetes/fixed-cluster.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { SimulatedClock } from '../../support/simulated-clock.ts';
import { markdownTable } from '../markdown-table.ts';
import { sized } from '../size.ts';
import { SimulatedNode, type Traffic, type World } from './simulated-node.ts';

const MINUTE_MS = 60_000;
const MiB = 2 ** 20;
const LAYERS = 32;
const LAYER_BYTES = 64 * MiB;
const BYTES_PER_SECOND = 1e9 / 8;
const DELAY_MS = 1;
const SETTLED_MS = 15 * MINUTE_MS;
const IDLE_MS = 10 * MINUTE_MS;
const LONGEST_MS = 12 * 60 * MINUTE_MS;

/** `known`: how many others each node knows, so that it takes minutes and not hours. */
const CLUSTERS = sized(
  [
    { size: 50, known: 49 },
    { size: 500, known: 100 },
    { size: 5_000, known: 32 },
  ],
  [{ size: 5, known: 4 }],
);

interface Run {
  readonly idle: Traffic;
  readonly spread: Traffic;
  /** Of one node, in a second, over a minute. */
  readonly peak: number;
  readonly heardMs: number;
  readonly halfMs: number;
  readonly lastMs: number;
}

/** Prints what passes between the nodes of a cluster, and how long a stick in one of them takes. */
export async function benchSimulatedFleet(print: (text: string) => void, only?: string): Promise<void> {
  const rows: string[][] = [];
  for (const { size, known } of CLUSTERS.filter((one) => only === undefined || `${one.size}` === only)) {
    const memoryMiB = await peersMiB(size);
    const run = await simulate(size, known);
    const { requests, bytes, connections } = run.spread;
    const each = (count: number) => (count / size).toFixed(0);
    rows.push([
      `${size}`,
      `${memoryMiB.toFixed(1)} MiB`,
      `${known}`,
      (run.idle.requests / size / (IDLE_MS / MINUTE_MS)).toFixed(2),
      each(requests),
      each(connections),
      `${(bytes / size / 1_024).toFixed(0)} KiB`,
      run.peak.toFixed(1),
      ...[run.heardMs, run.halfMs, run.lastMs].map(text),
    ]);
  }
  const copyMs = (1_000 * LAYERS * LAYER_BYTES) / BYTES_PER_SECOND;
  print(
    `\n${(LAYERS * LAYER_BYTES) / 2 ** 30} GiB in ${LAYERS} layers, 1 Gbit/s a node: one copy takes ${text(copyMs)}\n\n`,
  );
  const counts = [
    'idle: requests a minute',
    'requests',
    'connections',
    'bytes without blobs',
    'most requests a second',
  ];
  const times = ['all heard of it', 'half are ready', 'all are ready'];
  print(markdownTable(['nodes', 'memory for all others', 'each knows', ...counts, ...times], rows));
}

function text(ms: number): string {
  return ms < 120_000 ? `${(ms / 1_000).toFixed(0)} s` : `${(ms / MINUTE_MS).toFixed(1)} min`;
}

async function simulate(size: number, leastKnown: number): Promise<Run> {
  const clock = new SimulatedClock(10);
  const random = seededRandom(size);
  const nodes: SimulatedNode[] = [];
  const layers = Array.from({ length: LAYERS }, (_none, at) => digestOf(`${at}`));
  const traffic = { requests: 0, connections: 0, bytes: 0 };
  const world: World = {
    clock,
    random,
    nodes,
    bundleId: digestOf('ocp 4.13.7'),
    layers,
    layerBytes: LAYER_BYTES,
    bytesPerSecond: BYTES_PER_SECOND,
    delayMs: DELAY_MS,
    traffic,
  };
  for (let at = 0; at < size; at += 1) nodes.push(new SimulatedNode(world, `worker-${at}`, at));
  const [first] = nodes;
  const known = acquaintances(nodes, leastKnown, random);
  const running = nodes.map((node) => node.run([...(known.get(node) ?? [])]).catch(() => undefined));
  await clock.passUntil(SETTLED_MS);
  const settled = { ...traffic };
  await clock.passUntil(SETTLED_MS + IDLE_MS);
  const before = { ...traffic };
  first?.plug();
  const beganMs = clock.monotonic();
  let peak = 0;
  while (nodes.some((node) => !node.isDone()) && clock.monotonic() - beganMs < LONGEST_MS) {
    const counts = nodes.map(({ requests }) => requests);
    await clock.passUntil(clock.monotonic() + MINUTE_MS);
    const ready = nodes.filter((node) => node.isDone()).length;
    const cpuSeconds = Math.round(process.cpuUsage().user / 1e6);
    process.stderr.write(
      `${text(clock.monotonic() - beganMs)}: ${ready} of ${size} are ready, ${cpuSeconds} s of processor time\n`,
    );
    peak = Math.max(peak, ...nodes.map(({ requests }, at) => (requests - (counts[at] ?? 0)) / 60));
  }
  const done = nodes.map(({ doneMs }) => doneMs - beganMs).sort((a, b) => a - b);
  const heard = nodes.filter((node) => node !== first).map(({ firstHeardMs }) => firstHeardMs - beganMs);
  const spread = minus(traffic, before);
  for (const node of nodes) node.end();
  await Promise.all(running);
  return {
    idle: minus(before, settled),
    spread,
    peak,
    heardMs: Math.max(...heard),
    halfMs: done[Math.floor(size / 2)] ?? 0,
    lastMs: done.at(-1) ?? 0,
  };
}

/**
 * Who knows whom: about `known` others each, by chance, and each pair both ways, since a node that
 * is called by another one asks it. The node that gets the stick knows all.
 */
function acquaintances(nodes: readonly SimulatedNode[], known: number, random: () => number) {
  const all = new Map(nodes.map((node) => [node, new Set<SimulatedNode>()]));
  const meet = (one: SimulatedNode | undefined, other: SimulatedNode | undefined) => {
    if (one === undefined || other === undefined || one === other) return;
    all.get(one)?.add(other);
    all.get(other)?.add(one);
  };
  const [first] = nodes;
  for (const node of nodes) meet(first, node);
  const chosen = () => nodes[Math.floor(random() * nodes.length)];
  for (const [node, others] of all) {
    if (known >= nodes.length - 1) for (const other of nodes) meet(node, other);
    else while (others.size < known) meet(node, chosen());
  }
  return all;
}

function minus(a: Traffic, b: Traffic): Traffic {
  return { requests: a.requests - b.requests, connections: a.connections - b.connections, bytes: a.bytes - b.bytes };
}

const SEEN_STATUS = {
  version: 1,
  arch: 'amd64',
  releases: [{ name: 'ocp', version: '4.13.7', phase: 'proven', current: true }],
};

/** Heap in MiB of what one node keeps of the others: their Nodes, and what each has answered. */
async function peersMiB(size: number): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const beforeBytes = process.memoryUsage().heapUsed;
  const clock = new SimulatedClock(10);
  const cluster = fixedCluster('self');
  const nodes = Array.from({ length: size }, (_none, at) => ({
    name: at === 0 ? 'self' : `worker-${at}`,
    endpoint: { host: `10.0.${at >> 8}.${at % 256}`, port: 9777 },
    serves: [digestOf(`bundle ${at % 4}`)],
    status: statusOf(at),
  }));
  cluster.set(nodes);
  const peers = fixedPeers({
    clock,
    cluster,
    request: async ({ name }) => ({ document: documentOf(name), etag: digestOf(name) }),
  });
  const stop = new AbortController();
  const running = peers.run(stop.signal);
  const isAnswered = () => peers.statuses().size === size - 1;
  while (!isAnswered()) await clock.passUntil(clock.monotonic() + MINUTE_MS);
  collect();
  const bytes = process.memoryUsage().heapUsed - beforeBytes;
  stop.abort();
  await running;
  return bytes / MiB;
}

/** As parsed from an answer: nothing is shared. */
function documentOf(name: string): OffersDocument {
  const [bundleId, version] = [digestOf('bundle 1'), '4.13.7'];
  const offered = { bundleId, name: 'ocp', version, sequence: 7, isWhole: true, revision: digestOf(name) };
  return JSON.parse(JSON.stringify({ version: 1, bundles: [offered], node: { name, status: statusOf(1) } }));
}

function statusOf(at: number): NodeStatus {
  const bundle = hexOf(digestOf(`bundle ${at % 4}`)).slice(0, 16);
  return JSON.parse(
    JSON.stringify({ ...SEEN_STATUS, releases: SEEN_STATUS.releases.map((one) => ({ ...one, bundle })) }),
  );
}
