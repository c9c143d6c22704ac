import { stat, statfs } from 'node:fs/promises';
import type { Reason } from '../domain/medium.ts';
import type {
  ImageFilesystem,
  LayerStorage,
  MirrorEffect,
  RuntimeObservation,
  StagingPlace,
} from '../domain/runtime-image.ts';
import { withDeadline } from '../platform/abort.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { CriClient } from './cri-client.ts';

/** The part of an observation that a runtime's own adapter adds. */
export interface Rendered {
  readonly renderedPins: readonly string[];
  /** See {@link RuntimeObservation}; a runtime that pins by label has none. */
  readonly pinFault?: Reason | undefined;
  readonly renderedMirrors: readonly string[];
}

/** How a runtime works, as far as its version does not change it. */
export interface RuntimeTraits {
  readonly layerStorage: LayerStorage;
  readonly mirrorsTakeEffect: MirrorEffect;
  /** Where blobs lie while they are pulled, if that is not the runtime's own storage. */
  readonly stagingPath?: string;
}

/**
 * One observation over CRI: name, images, filesystem, and what `rendered` finds. Whatever fails, or takes longer than `timeoutMs`, makes it
 * `unreachable`; only an abort of `signal` is thrown.
 */
export async function observeOverCri(
  cri: CriClient,
  { layerStorage, mirrorsTakeEffect, stagingPath }: RuntimeTraits,
  timeoutMs: number,
  signal: AbortSignal,
  rendered: (signal: AbortSignal) => Promise<Rendered>,
): Promise<RuntimeObservation> {
  try {
    return await withDeadline(
      'The container runtime',
      timeoutMs,
      signal,
      async (inner): Promise<RuntimeObservation> => {
        const [name, images, filesystem, ours] = await Promise.all([
          cri.version(inner),
          cri.listImages(inner),
          imageFilesystem(cri, inner),
          rendered(inner),
        ]);
        const staging = await stagingPlace(filesystem, stagingPath);
        const traits = { layerStorage, mirrorsTakeEffect };
        return { kind: 'reachable', name, images, filesystem, ...traits, staging, ...ours };
      },
    );
  } catch (error) {
    signal.throwIfAborted();
    const isAway = error instanceof AppError && error.code === 'runtime/unreachable';
    return { kind: 'unreachable', reason: isAway ? `nothing answers on ${cri.socketPath}` : reasonOf(error) };
  }
}

/** Size and free bytes of the filesystem at `path`; undefined when it can't be asked. */
export async function filesystemAt(path: string): Promise<ImageFilesystem | undefined> {
  try {
    const { bsize, blocks, bavail, files, ffree } = await statfs(path);
    const sizes = { path, totalBytes: bsize * blocks, freeBytes: bsize * bavail };
    return files === 0 ? sizes : { ...sizes, inodes: { total: files, free: ffree } };
  } catch {
    return undefined; // a runtime may name a path that this process can't see; then nothing is known about space
  }
}

/** Where `path` lies, seen from the images; undefined when that can't be told. */
async function stagingPlace(
  images: ImageFilesystem | undefined,
  path: string | undefined,
): Promise<StagingPlace | undefined> {
  if (images === undefined || path === undefined) return undefined;
  try {
    const [own, other] = await Promise.all([stat(images.path), stat(path)]);
    return own.dev === other.dev ? 'with-images' : await filesystemAt(path);
  } catch {
    return undefined;
  }
}

async function imageFilesystem(cri: CriClient, signal: AbortSignal): Promise<ImageFilesystem | undefined> {
  const path = await cri.imageFilesystemPath(signal);
  return path === undefined ? undefined : filesystemAt(path);
}
