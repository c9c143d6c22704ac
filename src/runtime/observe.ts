import { statfs } from 'node:fs/promises';
import type { Reason } from '../domain/medium.ts';
import type { ImageFilesystem, RuntimeObservation } from '../domain/runtime-image.ts';
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

/**
 * One observation over CRI: name, images, filesystem, and what `rendered` finds. Whatever fails, or takes longer than `timeoutMs`, makes it
 * `unreachable`; only an abort of `signal` is thrown.
 */
export async function observeOverCri(
  cri: CriClient,
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
        return { kind: 'reachable', name, images, filesystem, ...ours };
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
    const { bsize, blocks, bavail } = await statfs(path);
    return { path, totalBytes: bsize * blocks, freeBytes: bsize * bavail };
  } catch {
    return undefined; // a runtime may name a path that this process can't see; then nothing is known about space
  }
}

async function imageFilesystem(cri: CriClient, signal: AbortSignal): Promise<ImageFilesystem | undefined> {
  const path = await cri.imageFilesystemPath(signal);
  return path === undefined ? undefined : filesystemAt(path);
}
