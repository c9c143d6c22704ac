import { join } from 'node:path';
import type { Settings } from '../../domain/settings/settings.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { UnitControl } from '../../ports/node.ts';
import type { MirrorAddress } from '../../runtime/config/mirror-address.ts';
import { configuredRuntime } from '../../runtime/configured-runtime.ts';
import { createContainerdRuntime } from '../../runtime/containerd/containerd-runtime.ts';
import { crioPathsOf } from '../../runtime/crio/crio-paths.ts';
import { createCrioRuntime } from '../../runtime/crio/crio-runtime.ts';
import { detectRuntime, type RuntimeCandidate } from '../../runtime/detect.ts';
import { createEmbeddedRuntime } from '../../runtime/embedded/embedded-runtime.ts';
import type { RuntimeAdapter } from '../../runtime/runtime-adapter.ts';

/** The inputs for the choice of a runtime. */
export interface RuntimeChoice {
  readonly settings: Settings;
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  readonly arch: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** The configured runtime, or a detected one. */
export function createRuntime(choice: RuntimeChoice): RuntimeAdapter {
  const { runtime, crio, paths } = choice.settings;
  const { units, mirror, log, clock, arch } = choice;
  const buildCrio = ({ socketPath }: RuntimeCandidate) =>
    createCrioRuntime({
      socketPath,
      unit: crio.unit,
      units,
      mirror,
      clock,
      log,
      paths: crioPathsOf({ crio, paths }),
    });
  const buildContainerd = ({ socketPath, unitNames, certsDirectory }: RuntimeCandidate) =>
    createContainerdRuntime({
      socketPath,
      unitNames,
      ...(certsDirectory !== undefined && { certsDirectory }),
      foldersFile: join(paths.state_dir, 'mirror-folders'),
      units,
      mirror,
      clock,
    });
  const build = (candidate: RuntimeCandidate) =>
    candidate.kind === 'crio' ? buildCrio(candidate) : buildContainerd(candidate);
  if (runtime.kind === 'embedded')
    return createEmbeddedRuntime({ directory: join(paths.state_dir, 'images'), mirror, arch, clock });
  const configured = (found?: RuntimeCandidate) => configuredRuntime(runtime, found);
  const chosen = configured();
  if (chosen !== undefined) return build(chosen);
  return createDetectedRuntime(detectRuntime, (found) => build(configured(found) ?? found));
}

/**
 * A runtime that is detected again when the current one does not answer. A runtime may be
 * installed, replaced or started after the daemon.
 *
 * INVARIANT: after `close` no adapter is built. What a new one watches would keep the process
 * alive.
 *
 * @param detect finds the runtime of this node
 * @param build makes its adapter; the previous one is closed
 */
export function createDetectedRuntime(
  detect: (signal: AbortSignal) => Promise<RuntimeCandidate | undefined>,
  build: (candidate: RuntimeCandidate) => RuntimeAdapter,
): RuntimeAdapter {
  const listeners = new Set<() => void>();
  let current: { candidate: RuntimeCandidate; adapter: RuntimeAdapter; unsubscribe: () => void } | undefined;
  let isClosed = false;

  const drop = () => {
    current?.unsubscribe();
    current?.adapter.close();
    current = undefined;
  };
  const use = (candidate: RuntimeCandidate): RuntimeAdapter => {
    drop();
    const adapter = build(candidate);
    const unsubscribe = adapter.onChange(() => {
      for (const listener of listeners) listener();
    });
    current = { candidate, adapter, unsubscribe };
    return adapter;
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
      const observation = await current?.adapter.observe(signal);
      if (observation !== undefined && observation.kind !== 'unreachable') return observation;
      const candidate = await detect(signal);
      if (candidate === undefined) return observation ?? { kind: 'unreachable', reason: NONE_FOUND };
      if (observation !== undefined && current?.candidate.socketPath === candidate.socketPath) return observation;
      // The previous runtime must no longer use our registry. If this fails, its mirrors are
      // removed when the daemon stops.
      await current?.adapter.applyMirrors([], signal).catch(() => signal.throwIfAborted());
      if (isClosed) return { kind: 'unreachable', reason: 'the daemon stops' };
      return use(candidate).observe(signal);
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

/** The manifests and configs of images that a runtime has, where it can be asked for them. */
export function documentsOf(adapter: Pick<RuntimeAdapter, 'storedDocuments' | 'storedBlobs'> | undefined) {
  return adapter?.storedDocuments ?? adapter?.storedBlobs;
}

/** Of a runtime without stored blobs; nobody asks, since there is no size. */
async function* noBytes(): AsyncGenerator<Buffer> {}

const NONE_FOUND =
  'neither CRI-O nor containerd was found at its usual socket (runtime.socket in /etc/stickpin/stickpin.toml can name another)';
