import { FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import type { Clock } from '../../platform/clock.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { getNode } from '../publisher/own-node.ts';
import type { Cluster, ClusterNode } from '../trouble.ts';
import type { StoredPeer, Target } from './peer.ts';

/** What the places are made of. */
interface TargetSources {
  readonly self: string;
  readonly nodes: readonly ClusterNode[];
  /** Whether the API server answers: then a node that it does not name is gone. */
  readonly isComplete: boolean;
  /** `fleet.peers`. */
  readonly fixed: readonly string[];
  readonly stored: readonly StoredPeer[];
}

/**
 * All places to ask, by endpoint. A node is asked where it says, else where it was last. Of several
 * nodes that name the same place none displaces the others: the certificate tells which one it is.
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

/** Asks the Kubernetes API whether the kubelet of a node lives. @throws KubernetesError */
export type IsKubeletReady = (node: string, signal: AbortSignal) => Promise<boolean>;

/** The adapters of {@link createKubelets}. */
interface KubeletsOptions {
  readonly cluster: Pick<Cluster, 'nodes'>;
  readonly silence: Pick<Silence, 'silentMs' | 'isAlive'>;
  readonly isReady: IsKubeletReady;
  /** `fleet.absent` */
  readonly absentMs: number;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** Looks at nodes before they count as absent. */
export interface Kubelets {
  /** Asks about the nodes that have been silent for long. Never rejects. */
  look(signal: AbortSignal): Promise<void>;
  /** Looks again and again until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** It is first asked after this share of `fleet.absent`, and after that one again. */
const FIRST = 0.5;

const AGAIN = 0.2;

const LOOK_MS = 5_000;

/**
 * A node whose port is blocked, and that has nothing new to write, is silent and lives. Its kubelet
 * tells the Kubernetes API so. Where stickpin never told anything it is not waited for.
 */
export function createKubelets(options: KubeletsOptions): Kubelets {
  const asked = new Map<string, number>();
  return {
    look: (signal) => look(options, asked, signal),
    run: async (signal) => {
      while (!signal.aborted) {
        await look(options, asked, signal);
        await options.clock.sleep(LOOK_MS, signal).catch(() => undefined);
      }
    },
  };
}

/** @param asked how silent a node was when it was asked about last */
async function look(options: KubeletsOptions, asked: Map<string, number>, signal: AbortSignal): Promise<void> {
  const { cluster, silence, isReady, absentMs } = options;
  for (const { name, status } of cluster.nodes()) {
    const silentMs = silence.silentMs(name);
    const before = asked.get(name);
    const isAgain = before !== undefined && silentMs >= before;
    const dueMs = isAgain ? before + absentMs * AGAIN : absentMs * FIRST;
    if (!isAgain) asked.delete(name);
    if (status === undefined || silentMs === 0 || silentMs < dueMs || signal.aborted) continue;
    asked.set(name, silentMs);
    if (!(await isReady(name, signal).catch(() => false))) continue;
    silence.isAlive(name);
    asked.delete(name);
  }
}

/** By the condition `Ready` of its Node, which turns `Unknown` when the kubelet is silent. */
export async function isKubeletReady(api: KubernetesApi, node: string, signal: AbortSignal): Promise<boolean> {
  const { status } = await getNode(api, node, signal);
  return status.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
}

/** For how long nodes gave no sign of life while they were asked for one. */
export interface Silence {
  /** A node gave a sign of life. */
  heard(node: string): void;
  /** It lives, by what others say. */
  isAlive(node: string): void;
  /** For how long a node has been silent while it was asked, in milliseconds. */
  silentMs(node: string): number;
  /** When any node was heard last, in monotonic milliseconds; undefined: never since the start. */
  lastHeardMs(): number | undefined;
  /**
   * When a node was heard last, in milliseconds since the epoch; undefined: never since the start.
   */
  seenAt(node: string): number | undefined;
  /** Time has passed. @param isAsking whether nodes were asked since the last call */
  pass(nodes: readonly string[], isAsking: boolean): void;
  isAbsent(node: string): boolean;
}

/**
 * Counts the silence of nodes. Nodes of an idle cluster say nothing, so that their silence counts
 * only while they are asked.
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

/** What tells whether this node would hear others. */
interface Hearing {
  /** Whether nodes are asked. */
  readonly isAsking: boolean;
  /** Whether this node can prove who it is, or need not. */
  readonly hasIdentity: boolean;
  /** Whether the Kubernetes API shows all nodes. */
  readonly isApiComplete: boolean;
  /** When any node was heard last; undefined: never. Monotonic, as `nowMs`. */
  readonly lastHeardMs: number | undefined;
  readonly nowMs: number;
}

/** Nodes that need something ask, and are asked, at least every 30 s. */
const HEARS_MS = 5 * 60_000;

/**
 * Whether silence of others counts. A node that hears nobody at all, and to which the Kubernetes
 * API does not show the others, may itself be the one that is cut off.
 */
export function countsSilence(hearing: Hearing): boolean {
  const { isAsking, hasIdentity, isApiComplete, lastHeardMs, nowMs } = hearing;
  const hears = isApiComplete || (lastHeardMs !== undefined && nowMs - lastHeardMs <= HEARS_MS);
  return isAsking && hasIdentity && hears;
}
