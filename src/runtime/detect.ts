import { stat } from 'node:fs/promises';
import { createCriClient } from './cri/cri-client.ts';

/** A runtime that may be on a node, with its paths. */
export interface RuntimeCandidate {
  readonly kind: 'crio' | 'containerd';
  /** Name for display: `k3s`. */
  readonly title: string;
  readonly socketPath: string;
  /** systemd units; one of them runs it. */
  readonly unitNames: readonly string[];
  /** containerd's `certs.d`, if this distribution has its own. */
  readonly certsDirectory?: string;
  /** A path that exists when the runtime is installed. */
  readonly trace: string;
}

/**
 * The known runtimes. Distributions with their own containerd come before plain containerd, which
 * such a node may also have for Docker.
 */
const RUNTIME_CANDIDATES: readonly RuntimeCandidate[] = [
  {
    kind: 'crio',
    title: 'CRI-O',
    socketPath: '/var/run/crio/crio.sock',
    unitNames: ['crio.service'],
    trace: '/etc/crio',
  },
  {
    kind: 'containerd',
    title: 'k3s',
    socketPath: '/run/k3s/containerd/containerd.sock',
    unitNames: ['k3s.service', 'k3s-agent.service'],
    certsDirectory: '/var/lib/rancher/k3s/agent/etc/containerd/certs.d',
    trace: '/var/lib/rancher/k3s',
  },
  {
    kind: 'containerd',
    title: 'RKE2',
    socketPath: '/run/k3s/containerd/containerd.sock',
    unitNames: ['rke2-server.service', 'rke2-agent.service'],
    certsDirectory: '/var/lib/rancher/rke2/agent/etc/containerd/certs.d',
    trace: '/var/lib/rancher/rke2',
  },
  {
    kind: 'containerd',
    title: 'MicroK8s',
    socketPath: '/var/snap/microk8s/common/run/containerd.sock',
    unitNames: ['snap.microk8s.daemon-containerd.service'],
    certsDirectory: '/var/snap/microk8s/current/args/certs.d',
    trace: '/var/snap/microk8s',
  },
  {
    kind: 'containerd',
    title: 'containerd',
    socketPath: '/run/containerd/containerd.sock',
    unitNames: ['containerd.service'],
    trace: '/etc/containerd',
  },
];

/** Checks of the machine for the detection. */
export interface Probes {
  exists(path: string): Promise<boolean>;
  /** Whether something on the socket answers CRI's `Version`. */
  answersCri(socketPath: string, signal: AbortSignal): Promise<boolean>;
}

/**
 * The runtime of this node: the first candidate that answers CRI. If none answers (it may start
 * later): the first installed one with a socket, otherwise the first installed one. Undefined when
 * none is found. k3s and RKE2 share a socket; the installed files decide.
 */
export async function detectRuntime(
  signal: AbortSignal,
  probes: Probes = machineProbes,
  candidates: readonly RuntimeCandidate[] = RUNTIME_CANDIDATES,
): Promise<RuntimeCandidate | undefined> {
  const found: { candidate: RuntimeCandidate; hasSocket: boolean; isInstalled: boolean }[] = [];
  for (const candidate of candidates) {
    const [hasSocket, isInstalled] = await Promise.all([
      probes.exists(candidate.socketPath),
      probes.exists(candidate.trace),
    ]);
    if (hasSocket || isInstalled) found.push({ candidate, hasSocket, isInstalled });
  }
  const plausible = found.filter(({ candidate, isInstalled }) => isInstalled || !sharesSocket(candidate, found));
  for (const { candidate, hasSocket } of plausible) {
    if (hasSocket && (await probes.answersCri(candidate.socketPath, signal))) return candidate;
  }
  return (plausible.find(({ hasSocket }) => hasSocket) ?? plausible[0])?.candidate;
}

/**
 * Whether an installed candidate has the same socket. Then a candidate known only by its socket is
 * ignored.
 */
function sharesSocket(
  candidate: RuntimeCandidate,
  found: readonly { candidate: RuntimeCandidate; isInstalled: boolean }[],
): boolean {
  return found.some(
    (other) =>
      other.isInstalled && other.candidate !== candidate && other.candidate.socketPath === candidate.socketPath,
  );
}

const PROBE_TIMEOUT_MS = 2_000;

const machineProbes: Probes = {
  exists: async (path) => (await stat(path).catch(() => undefined)) !== undefined,
  answersCri: async (socketPath, signal) => {
    const cri = createCriClient({ socketPath, timeoutMs: PROBE_TIMEOUT_MS });
    try {
      await cri.version(signal);
      return true;
    } catch {
      signal.throwIfAborted();
      return false; // anything else is not a CRI runtime
    } finally {
      cri.close();
    }
  },
};
