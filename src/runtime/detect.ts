import { stat } from 'node:fs/promises';
import { createCriClient } from './cri/cri-client.ts';

/** A runtime that may be on a node, and where it has its things. */
export interface RuntimeCandidate {
  readonly kind: 'crio' | 'containerd';
  /** For people: `k3s`. */
  readonly title: string;
  readonly socketPath: string;
  /** systemd units of which one runs it. */
  readonly unitNames: readonly string[];
  /** containerd's `certs.d`, where this distribution has its own. */
  readonly certsDirectory?: string;
  /** A path that tells of an installation, running or not. */
  readonly trace: string;
}

/**
 * The usual runtimes. Those that bring their own containerd come before the plain one, which such a
 * node may have as well, for Docker.
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

/** What detection asks of the machine. */
export interface Probes {
  exists(path: string): Promise<boolean>;
  /** Whether something on the socket answers CRI's `Version`. */
  answersCri(socketPath: string, signal: AbortSignal): Promise<boolean>;
}

/**
 * The runtime of this node: the first candidate that answers CRI; while none does (it may start
 * after us), the first installed one whose socket is there, or else the first installed one.
 * Undefined when nothing tells of any. k3s and RKE2 share a socket; their installations tell them
 * apart.
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
 * A candidate known by its socket alone must not stand in for one with the same socket that is
 * installed.
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
      return false; // whatever it says instead, it is no CRI runtime for us
    } finally {
      cri.close();
    }
  },
};
