import type { Clock } from '../../platform/clock.ts';
import type { Cluster } from '../cluster.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { getNode } from '../publisher/own-node.ts';
import type { Silence } from './silence.ts';

/** Asks the Kubernetes API whether the kubelet of a node lives. @throws KubernetesError */
export type IsKubeletReady = (node: string, signal: AbortSignal) => Promise<boolean>;

/** The adapters of {@link createKubelets}. */
export interface KubeletsOptions {
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
