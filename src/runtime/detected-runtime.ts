import { AppError } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { DetectedRuntime, RuntimeCandidate } from './detect.ts';
import type { RuntimeAdapter } from './runtime-adapter.ts';

/**
 * For how long a runtime that does not answer any more is not given up for another one: it may be
 * restarted, updated or mended meanwhile.
 */
const PATIENCE_MS = 10 * 60_000;

interface RuntimeInUse {
  readonly candidate: RuntimeCandidate;
  readonly adapter: RuntimeAdapter;
  readonly unsubscribe: () => void;
  /** Monotonic milliseconds. Undefined: it has not answered yet. */
  answeredAt?: number;
}

/**
 * A runtime that is detected again when the current one does not answer. A runtime may be
 * installed, replaced or started after the daemon. One that has answered is given up only for one
 * that answers, and after ten minutes: on a node with two, a restart of the one in use must not
 * move the images to the other.
 *
 * INVARIANT: after `close` no adapter is built. What a new one watches would keep the process
 * alive.
 *
 * @param detect finds the runtime of this node
 * @param build makes its adapter; the previous one is closed
 */
export function createDetectedRuntime(
  detect: (signal: AbortSignal) => Promise<DetectedRuntime | undefined>,
  build: (candidate: RuntimeCandidate) => RuntimeAdapter,
  clock: Pick<Clock, 'monotonic'>,
): RuntimeAdapter {
  const listeners = new Set<() => void>();
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
    const unsubscribe = adapter.onChange(() => {
      for (const listener of listeners) listener();
    });
    current = { candidate, adapter, unsubscribe };
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
    onChange: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
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
    imagesAskedFor: async (signal) => present().imagesAskedFor(signal),
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
  };
}

async function observe(inUse: RuntimeInUse, clock: Pick<Clock, 'monotonic'>, signal: AbortSignal) {
  const observation = await inUse.adapter.observe(signal);
  if (observation.kind !== 'unreachable') inUse.answeredAt = clock.monotonic();
  return observation;
}

/** Whether a runtime that does not answer stays in use, although another one was found. */
function isKept(inUse: RuntimeInUse | undefined, other: DetectedRuntime, clock: Pick<Clock, 'monotonic'>): boolean {
  if (inUse === undefined) return false;
  if (inUse.candidate.socketPath === other.socketPath) return true;
  if (inUse.answeredAt === undefined) return false;
  return !other.answers || clock.monotonic() - inUse.answeredAt < PATIENCE_MS;
}

/** The manifests and configs of images that a runtime has, where it can be asked for them. */
export function documentsOf(adapter: Pick<RuntimeAdapter, 'storedDocuments' | 'storedBlobs'> | undefined) {
  return adapter?.storedDocuments ?? adapter?.storedBlobs;
}

/** Of a runtime without stored blobs; nobody asks, since there is no size. */
async function* noBytes(): AsyncGenerator<Buffer> {}

const NONE_FOUND = 'neither CRI-O nor containerd was found at its usual socket (runtime.socket can name another)';
