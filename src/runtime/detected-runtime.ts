import { stat } from 'node:fs/promises';
import type { Settings } from '../domain/settings/settings.ts';
import { AppError } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import { defined } from '../platform/defined.ts';
import { Observable } from '../platform/subscription.ts';
import type { RuntimeAdapter } from './runtime-adapter.ts';
import { KINDS, type ProbeClient, plainCandidate, type RuntimeCandidate } from './runtimes.ts';

/** Meanwhile a runtime without an answer may be restarted, updated or repaired. */
const KEPT_MS = 10 * 60_000;

interface RuntimeInUse {
  readonly candidate: RuntimeCandidate;
  readonly adapter: RuntimeAdapter;
  readonly unsubscribe: () => void;
  /** Monotonic milliseconds; undefined before the first answer. */
  answeredAt?: number;
}

/**
 * Detects the runtime again when it does not answer: one may be installed, replaced or started
 * after the daemon. A runtime that has answered is replaced after ten minutes, and only by one that
 * answers: on a node with two, a restart must not move the images to the other. INVARIANT: after
 * `close` no adapter is built, since its watches would keep the process alive.
 */
export function createDetectedRuntime(
  detect: (signal: AbortSignal) => Promise<DetectedRuntime | undefined>,
  build: (candidate: RuntimeCandidate) => RuntimeAdapter,
  clock: Pick<Clock, 'monotonic'>,
): RuntimeAdapter {
  const changes = new Observable();
  let current: RuntimeInUse | undefined;
  let isClosed = false;

  const drop = () => {
    current?.unsubscribe();
    current?.adapter.close();
    current = undefined;
  };
  const use = (candidate: RuntimeCandidate): RuntimeInUse => {
    drop();
    const adapter = build(candidate);
    current = { candidate, adapter, unsubscribe: adapter.onChange(() => changes.notify()) };
    return current;
  };
  const present = (): RuntimeAdapter => {
    if (current !== undefined) return current.adapter;
    throw new AppError({ code: 'runtime/unreachable', message: NONE_FOUND, disposition: 'retry' });
  };
  return {
    close: () => {
      isClosed = true;
      drop();
    },
    onChange: (listener) => changes.onChange(listener),
    observe: async (signal) => {
      const known = current;
      const observation = known && (await observe(known, clock, signal));
      if (observation !== undefined && observation.kind !== 'unreachable') return observation;
      const candidate = await detect(signal);
      if (candidate === undefined) return observation ?? { kind: 'unreachable', reason: NONE_FOUND, isAbsent: true };
      if (observation !== undefined && isKept(known, candidate, clock)) return observation;
      // The previous runtime must no longer use our registry. If this fails, its mirrors are
      // removed when the daemon stops.
      await current?.adapter.applyMirrors([], signal).catch(() => signal.throwIfAborted());
      if (isClosed) return { kind: 'unreachable', reason: 'the daemon stops' };
      return observe(use(candidate), clock, signal);
    },
    applyPins: async (references, options, signal) => present().applyPins(references, options, signal),
    applyMirrors: async (mirrors, signal) => present().applyMirrors(mirrors, signal),
    pull: async (reference, signal) => present().pull(reference, signal),
    image: async (name, signal) => present().image(name, signal),
    addTag: async (tag, reference, signal) => present().addTag(tag, reference, signal),
    removeTag: async (tag, signal) => present().removeTag(tag, signal),
    containers: async (signal) => present().containers(signal),
    containerImages: async (signal) => present().containerImages(signal),
    removeContainer: async (containerId, signal) => present().removeContainer(containerId, signal),
    removeImage: async (imageId, signal) => present().removeImage(imageId, signal),
    openContentCheck: () => present().openContentCheck(),
    storedBlobs: {
      sizeOf: async (digest, signal) => current?.adapter.storedBlobs?.sizeOf(digest, signal),
      read: (digest, startByte, signal) => present().storedBlobs?.read(digest, startByte, signal) ?? noBytes(),
    },
    storedDocuments: {
      sizeOf: async (digest, signal) => documentsOf(current?.adapter)?.sizeOf(digest, signal),
      read: (digest, startByte, signal) => documentsOf(present())?.read(digest, startByte, signal) ?? noBytes(),
    },
    forgetContent: async (digests, signal) => present().forgetContent(digests, signal),
    storagePaths: async (signal) => present().storagePaths(signal),
  };
}

async function observe(inUse: RuntimeInUse, clock: Pick<Clock, 'monotonic'>, signal: AbortSignal) {
  const observation = await inUse.adapter.observe(signal);
  if (observation.kind !== 'unreachable') inUse.answeredAt = clock.monotonic();
  return observation;
}

/** Although another one was found. */
function isKept(inUse: RuntimeInUse | undefined, other: DetectedRuntime, clock: Pick<Clock, 'monotonic'>): boolean {
  if (inUse === undefined) return false;
  if (inUse.candidate.socketPath === other.socketPath) return true;
  if (inUse.answeredAt === undefined) return false;
  return !other.answers || clock.monotonic() - inUse.answeredAt < KEPT_MS;
}

export function documentsOf(adapter: RuntimeAdapter | undefined) {
  return adapter?.storedDocuments ?? adapter?.storedBlobs;
}

/** Nothing is read if no sizes are known. */
async function* noBytes(): AsyncGenerator<Buffer> {}

const NONE_FOUND =
  'none of CRI-O, containerd, Docker and Podman was found at its usual socket (runtime.socket can name another)';

/** `answers`: at detection. */
export interface DetectedRuntime extends RuntimeCandidate {
  readonly answers: boolean;
}

/**
 * Distributions first: such a node may also have containerd for Docker. A kubelet uses Docker by
 * cri-dockerd only, and Podman never: where it comes up with another runtime, that one must not be
 * missed because Docker answered earlier.
 */
const RUNTIME_CANDIDATES: readonly RuntimeCandidate[] = [
  plainCandidate('cri-o'),
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
  { ...plainCandidate('docker'), on: 'docker-node' },
  { ...plainCandidate('containerd'), on: 'other-node' },
  { ...plainCandidate('podman'), on: 'no-kubelet' },
];

const KUBELET = '/var/lib/kubelet';
const CRI_DOCKERD = '/run/cri-dockerd.sock';

interface Probes {
  exists(path: string): Promise<boolean>;
  answers(candidate: RuntimeCandidate, signal: AbortSignal): Promise<boolean>;
  /** Returns undefined when the runtime does not report it. */
  imagesPath(socketPath: string, signal: AbortSignal): Promise<string | undefined>;
}

/**
 * The first candidate that answers, otherwise the first installed one with a socket, otherwise
 * the first installed one. k3s and RKE2 share a socket: the installed files decide, and where both
 * are installed, the folder of the images.
 */
export async function detectRuntime(
  signal: AbortSignal,
  probes: Probes = machineProbes,
  candidates: readonly RuntimeCandidate[] = RUNTIME_CANDIDATES,
): Promise<DetectedRuntime | undefined> {
  const found: { candidate: RuntimeCandidate; hasSocket: boolean; isInstalled: boolean }[] = [];
  const possible = candidates.filter(isPossible(await nodeOf(probes)));
  for (const candidate of possible) {
    const [hasSocket, isInstalled] = await Promise.all([
      probes.exists(candidate.socketPath),
      probes.exists(candidate.trace),
    ]);
    if (hasSocket || isInstalled) found.push({ candidate, hasSocket, isInstalled });
  }
  const plausible = found.filter(({ candidate, isInstalled }) => isInstalled || !sharesSocket(candidate, found));
  for (const { candidate, hasSocket } of plausible) {
    if (!hasSocket || !(await probes.answers(candidate, signal))) continue;
    const alike = plausible.filter((other) => other.candidate.socketPath === candidate.socketPath);
    if (alike.length === 1) return { ...candidate, answers: true };
    const imagesPath = (await probes.imagesPath(candidate.socketPath, signal)) ?? '';
    const owner = alike.find(({ candidate: { trace } }) => imagesPath.startsWith(`${trace}/`))?.candidate;
    return { ...(owner ?? candidate), answers: true };
  }
  const silent = plausible.find(({ hasSocket }) => hasSocket) ?? plausible[0];
  return silent && { ...silent.candidate, answers: false };
}

/** docker.socket is there before Docker, and containerd answers before it. */
async function nodeOf({ exists }: Probes) {
  const hasKubelet = await exists(KUBELET);
  const mayUseDocker = !hasKubelet || (await exists(CRI_DOCKERD));
  return { hasKubelet, mayUseDocker, usesDocker: mayUseDocker && (await exists(KINDS.docker.socketPath)) };
}

function isPossible({ hasKubelet, mayUseDocker, usesDocker }: Awaited<ReturnType<typeof nodeOf>>) {
  return ({ on }: RuntimeCandidate): boolean => {
    if (on === 'docker-node') return mayUseDocker;
    return on === 'other-node' ? !usesDocker : on !== 'no-kubelet' || !hasKubelet;
  };
}

/** If so, a candidate known only by its socket is ignored. */
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
  // A runtime of another kind does not answer. Podman may have a link at Docker's socket.
  answers: async (candidate, signal) =>
    (await withClient(candidate, signal, async (client) => {
      const name = await client.version(signal);
      return candidate.kind !== 'docker' || !name.startsWith('podman');
    })) ?? false,
  imagesPath: (socketPath, signal) =>
    withClient({ kind: 'containerd', socketPath }, signal, (client) => client.imageFilesystemPath(signal)),
};

/** Returns undefined when it does not answer. */
async function withClient<T>(
  { kind, socketPath }: Pick<RuntimeCandidate, 'kind' | 'socketPath'>,
  signal: AbortSignal,
  call: (client: ProbeClient) => Promise<T>,
): Promise<T | undefined> {
  const client = KINDS[kind].probe(socketPath, PROBE_TIMEOUT_MS);
  try {
    return await call(client);
  } catch {
    signal.throwIfAborted();
    return undefined;
  } finally {
    client.close();
  }
}

/** `runtime.kind` decides, or the detection for `auto`. The settings may replace paths. */
export function configuredRuntime(
  { kind, socket, certs_dir: certsDirectory }: Settings['runtime'],
  found: RuntimeCandidate | undefined,
): RuntimeCandidate | undefined {
  const chosen = kind === 'auto' || kind === 'embedded' ? found : plainCandidate(kind);
  if (chosen === undefined) return undefined;
  return { ...chosen, ...defined({ socketPath: socket, certsDirectory }) };
}
