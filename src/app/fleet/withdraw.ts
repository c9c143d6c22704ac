import { hostname } from 'node:os';
import type { Settings } from '../../domain/settings/settings.ts';
import { createKubernetesApi, type KubernetesApi } from '../../fleet/kubernetes/api.ts';
import { readCredentials } from '../../fleet/kubernetes/credentials.ts';
import { createPublishedMark, type PublishedMark } from '../../fleet/publisher/published-mark.ts';
import { withdraw } from '../../fleet/publisher/publisher.ts';
import { fleetPaths } from '../../offers/fleet-paths.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Log } from '../../platform/log.ts';
import { sentence } from '../../platform/plain-text.ts';

/** How long the API server may take to forget what stickpin told. */
const WITHDRAW_MS = 10_000;

/**
 * Whether all of stickpin is gone from the own Node. `message`: what stays there, and what to do.
 */
export type Withdrawn = { readonly kind: 'gone' } | { readonly kind: 'left'; readonly message: string };

/**
 * Takes away what stickpin wrote into the own Node, if it wrote anything. When that fails, the mark
 * stays, and the next call tries it again.
 */
export async function withdrawFromNode(settings: Settings, log: Log, signal: AbortSignal): Promise<Withdrawn> {
  const mark = publishedMarkOf(settings, log);
  const marked = await mark.read().catch(() => undefined);
  if (marked === undefined && !settings.fleet.enabled) return { kind: 'gone' };
  const name = marked ?? nodeNameOfHost();
  try {
    await withDeadline('The Kubernetes API', WITHDRAW_MS, signal, (inner) => withdraw(apiOf(settings), name, inner));
    await mark.clear();
    return { kind: 'gone' };
  } catch (error) {
    signal.throwIfAborted();
    const why = `What stickpin told about this node stays on its Node: ${sentence(reasonOf(error))}`;
    return { kind: 'left', message: `${why} To remove it later, run: ${removalCommands(name)}` };
  }
}

/** The same by hand, on any machine that reaches the API server. */
function removalCommands(name: string): string {
  const node = JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
  const patch = JSON.stringify({ status: { conditions: [{ $patch: 'delete', type: 'StickpinHealthy' }] } });
  const apply = `echo '${node}' | kubectl apply --server-side --field-manager=stickpin -f -`;
  // An apply would make a Node that is gone.
  return `kubectl get node ${name} && ${apply} && kubectl patch node ${name} --subresource=status -p '${patch}'`;
}

/** The mark of what was published. */
export function publishedMarkOf({ paths }: Settings, log: Log): PublishedMark {
  return createPublishedMark(fleetPaths(paths).stateDir, log);
}

/** The Kubernetes API with the kubelet's credentials. */
export function apiOf({ fleet }: Settings): KubernetesApi {
  return createKubernetesApi((signal) => readCredentials(fleet.kubeconfig, signal));
}

/** As a kubelet without `--hostname-override` calls its Node. */
export function nodeNameOfHost(): string {
  return hostname().trim().toLowerCase();
}
