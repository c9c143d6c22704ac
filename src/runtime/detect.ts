import { stat } from 'node:fs/promises';
import { type CriClient, createCriClient } from './cri/cri-client.ts';

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

/** The runtime of a node. `answers`: whether it answered CRI when it was looked for. */
export interface DetectedRuntime extends RuntimeCandidate {
  readonly answers: boolean;
}

/** CRI-O and containerd as their own packages install them. */
export const PLAIN_CANDIDATES = {
  'cri-o': {
    kind: 'crio',
    title: 'CRI-O',
    socketPath: '/var/run/crio/crio.sock',
    unitNames: ['crio.service'],
    trace: '/etc/crio',
  },
  containerd: {
    kind: 'containerd',
    title: 'containerd',
    socketPath: '/run/containerd/containerd.sock',
    unitNames: ['containerd.service'],
    trace: '/etc/containerd',
  },
} as const satisfies Readonly<Record<string, RuntimeCandidate>>;

/**
 * The known runtimes. Distributions with their own containerd come before plain containerd, which
 * such a node may also have for Docker.
 */
const RUNTIME_CANDIDATES: readonly RuntimeCandidate[] = [
  PLAIN_CANDIDATES['cri-o'],
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
  PLAIN_CANDIDATES.containerd,
];

/** Checks of the machine for the detection. */
export interface Probes {
  exists(path: string): Promise<boolean>;
  /** Whether something on the socket answers CRI's `Version`. */
  answersCri(socketPath: string, signal: AbortSignal): Promise<boolean>;
  /** Where the runtime on this socket keeps its images. Undefined when it does not tell. */
  imagesPath(socketPath: string, signal: AbortSignal): Promise<string | undefined>;
}

/**
 * The runtime of this node: the first candidate that answers CRI. If none answers (it may start
 * later): the first installed one with a socket, otherwise the first installed one. Undefined when
 * none is found. k3s and RKE2 share a socket. The installed files decide, and where both are
 * installed, the folder in which the runtime keeps its images.
 */
export async function detectRuntime(
  signal: AbortSignal,
  probes: Probes = machineProbes,
  candidates: readonly RuntimeCandidate[] = RUNTIME_CANDIDATES,
): Promise<DetectedRuntime | undefined> {
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
    if (!hasSocket || !(await probes.answersCri(candidate.socketPath, signal))) continue;
    const alike = plausible.filter((other) => other.candidate.socketPath === candidate.socketPath);
    if (alike.length === 1) return { ...candidate, answers: true };
    const imagesPath = (await probes.imagesPath(candidate.socketPath, signal)) ?? '';
    const owner = alike.find(({ candidate: { trace } }) => imagesPath.startsWith(`${trace}/`))?.candidate;
    return { ...(owner ?? candidate), answers: true };
  }
  const silent = plausible.find(({ hasSocket }) => hasSocket) ?? plausible[0];
  return silent && { ...silent.candidate, answers: false };
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
  // Whatever does not answer is not a CRI runtime.
  answersCri: async (socketPath, signal) =>
    (await ask(socketPath, signal, async (cri) => {
      await cri.version(signal);
      return true;
    })) ?? false,
  imagesPath: (socketPath, signal) => ask(socketPath, signal, (cri) => cri.imageFilesystemPath(signal)),
};

/** Undefined when it does not answer. */
async function ask<T>(
  socketPath: string,
  signal: AbortSignal,
  call: (cri: CriClient) => Promise<T>,
): Promise<T | undefined> {
  const cri = createCriClient({ socketPath, timeoutMs: PROBE_TIMEOUT_MS });
  try {
    return await call(cri);
  } catch {
    signal.throwIfAborted();
    return undefined;
  } finally {
    cri.close();
  }
}
