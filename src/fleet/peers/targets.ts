import { FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import type { Clock } from '../../platform/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { getNode } from '../publisher/own-node.ts';
import type { Cluster, ClusterNode } from '../trouble.ts';
import type { StoredPeer, Target } from './peer.ts';

interface TargetSources {
  readonly self: string;
  readonly nodes: readonly ClusterNode[];
  /** Then a node that the API server does not name is gone. */
  readonly isComplete: boolean;
  /** `fleet.peers`. */
  readonly fixed: readonly string[];
  readonly stored: readonly StoredPeer[];
}

/**
 * All places by endpoint. A node has its announced address, else its last one. Nodes with the same
 * place don't displace each other: the certificate decides.
 */
export function targetsOf(sources: TargetSources): ReadonlyMap<string, Target> {
  const { self, nodes, isComplete, fixed, stored } = sources;
  const targets = new Map<string, Target>();
  const own = nodes.find(({ name }) => name === self)?.endpoint;
  const ownAddress = own && formatEndpoint(own);
  const announced = new Set<string>();
  for (const { name, endpoint, serves } of nodes) {
    if (name === self || endpoint === undefined || formatEndpoint(endpoint) === ownAddress) continue;
    announced.add(name);
    add(targets, { endpoint, names: [name], isAnnounced: isComplete, announced: [...serves].sort().join(' ') });
  }
  const isGone = (name: string) => isComplete && !nodes.some((node) => node.name === name);
  for (const { name, address } of stored) {
    if (address === undefined || name === self || announced.has(name) || isGone(name)) continue;
    const endpoint = parseEndpoint(address, 0);
    if (endpoint === undefined) continue;
    add(targets, { endpoint, names: [name], isAnnounced: false, announced: '' });
  }
  for (const text of fixed) {
    const endpoint = parseEndpoint(text, FLEET_PORT);
    if (endpoint === undefined || targets.has(formatEndpoint(endpoint))) continue;
    add(targets, { endpoint, names: [], isAnnounced: false, announced: '' });
  }
  return targets;
}

function add(targets: Map<string, Target>, target: Omit<Target, 'name'>): void {
  const address = formatEndpoint(target.endpoint);
  const other = targets.get(address);
  const names = [...new Set([...(other?.names ?? []), ...target.names])].sort();
  const [name] = names.length === 1 ? names : [];
  targets.set(address, {
    endpoint: target.endpoint,
    name,
    names,
    isAnnounced: target.isAnnounced || other?.isAnnounced === true,
    announced: [other?.announced, target.announced].filter(Boolean).sort().join(' '),
  });
}

/** @throws KubernetesError */
export type IsKubeletReady = (node: string, signal: AbortSignal) => Promise<boolean>;

interface KubeletsOptions {
  readonly cluster: Pick<Cluster, 'nodes'>;
  readonly silence: Pick<Silence, 'silentMs' | 'isAlive'>;
  readonly isReady: IsKubeletReady;
  /** `fleet.absent` */
  readonly absentMs: number;
  readonly clock: Pick<Clock, 'sleep'>;
}

export interface Kubelets {
  /** Checks the nodes that have been silent for long. Never rejects. */
  look(signal: AbortSignal): Promise<void>;
  run(signal: AbortSignal): Promise<void>;
}

/** Share of `fleet.absent` before the first check, and between checks. */
const FIRST = 0.5;

const AGAIN = 0.2;

const LOOK_MS = 5_000;

/**
 * A node whose port is blocked and that has nothing to write is silent and lives: the Kubernetes
 * API knows its kubelet. Nodes without stickpin are not awaited.
 */
export function createKubelets(options: KubeletsOptions): Kubelets {
  const checked = new Map<string, number>();
  return {
    look: (signal) => look(options, checked, signal),
    run: async (signal) => {
      while (!signal.aborted) {
        await look(options, checked, signal);
        await options.clock.sleep(LOOK_MS, signal).catch(() => undefined);
      }
    },
  };
}

/** @param checked how silent each node was at its last check */
async function look(options: KubeletsOptions, checked: Map<string, number>, signal: AbortSignal): Promise<void> {
  const { cluster, silence, isReady, absentMs } = options;
  for (const { name, status } of cluster.nodes()) {
    const silentMs = silence.silentMs(name);
    const before = checked.get(name);
    const isAgain = before !== undefined && silentMs >= before;
    const dueMs = isAgain ? before + absentMs * AGAIN : absentMs * FIRST;
    if (!isAgain) checked.delete(name);
    if (status === undefined || silentMs === 0 || silentMs < dueMs || signal.aborted) continue;
    checked.set(name, silentMs);
    if (!(await isReady(name, signal).catch(() => false))) continue;
    silence.isAlive(name);
    checked.delete(name);
  }
}

/** By the condition `Ready`, which turns `Unknown` when the kubelet is silent. */
export async function isKubeletReady(api: KubernetesApi, node: string, signal: AbortSignal): Promise<boolean> {
  const { status } = await getNode(api, node, signal);
  return status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
}

/** How long nodes gave no sign of life while they were queried. */
export interface Silence {
  heard(node: string): void;
  /** By the Kubernetes API. */
  isAlive(node: string): void;
  /** In milliseconds. */
  silentMs(node: string): number;
  /** Monotonic milliseconds; undefined: never since the start. */
  lastHeardMs(): number | undefined;
  /** Milliseconds since the epoch; undefined: never since the start. */
  seenAt(node: string): number | undefined;
  /** @param isAsking whether nodes were queried since the last call */
  pass(nodes: readonly string[], isAsking: boolean): void;
  isAbsent(node: string): boolean;
}

/**
 * Nodes of an idle cluster say nothing, so silence counts only during queries.
 *
 * @param absentMs `fleet.absent`
 */
export function createSilence(absentMs: number, clock: Clock): Silence {
  const seen = new Map<string, number>();
  const silent = new Map<string, number>();
  let lastMs = clock.monotonic();
  let lastHeardMs: number | undefined;
  return {
    heard: (node) => {
      seen.set(node, clock.now());
      silent.set(node, 0);
      lastHeardMs = clock.monotonic();
    },
    isAlive: (node) => void silent.set(node, 0),
    silentMs: (node) => silent.get(node) ?? 0,
    lastHeardMs: () => lastHeardMs,
    seenAt: (node) => seen.get(node),
    pass: (nodes, isAsking) => {
      const nowMs = clock.monotonic();
      const passedMs = isAsking ? nowMs - lastMs : 0;
      lastMs = nowMs;
      const known = new Set(nodes);
      for (const node of known) silent.set(node, (silent.get(node) ?? 0) + passedMs);
      for (const node of [...silent.keys()]) if (!known.has(node)) silent.delete(node);
    },
    isAbsent: (node) => (silent.get(node) ?? 0) >= absentMs,
  };
}

/** Whether this node would hear others. */
interface Hearing {
  readonly isAsking: boolean;
  /** Or needs none. */
  readonly hasIdentity: boolean;
  readonly isApiComplete: boolean;
  /** Monotonic, as `nowMs`; undefined: never. */
  readonly lastHeardMs: number | undefined;
  readonly nowMs: number;
}

/** Nodes in need query, and are queried, at least every 30 s. */
const HEARS_MS = 5 * 60_000;

/**
 * A node that hears nobody, and that the Kubernetes API does not show the others, may itself be cut
 * off: then silence does not count.
 */
export function countsSilence(hearing: Hearing): boolean {
  const { isAsking, hasIdentity, isApiComplete, lastHeardMs, nowMs } = hearing;
  const hears = isApiComplete || (lastHeardMs !== undefined && nowMs - lastHeardMs <= HEARS_MS);
  return isAsking && hasIdentity && hears;
}
