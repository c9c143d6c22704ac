import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../bundle/format/oci-schema.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import type { Reference } from '../../domain/model/reference.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { pullError } from '../cri/runtime-error.ts';
import type { HttpSource } from './http-source.ts';
import { openPartialBlob, type PartialBlob } from './partial-blob.ts';

/**
 * Attempts in a row that bring no byte before a transfer is given up; the pauses between them
 * double.
 */
const FRUITLESS_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

/** Brings blobs into an OCI image layout. */
export interface BlobFetch {
  /** Where the blob lies, or will. */
  pathOf(digest: Digest): string;
  /**
   * Makes sure the blob is in the layout. A broken transfer is continued from the exact byte, also
   * one that an earlier process left; the blob gets its name only when its digest is right. Two
   * callers of one digest share a transfer.
   *
   * @throws AppError with a `PullErrorCode`
   */
  fetch(reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void>;
}

/** A {@link BlobFetch} into the layout at `directory`. */
export function createBlobFetch(directory: string, source: HttpSource, clock: Clock): BlobFetch {
  const running = new Map<Digest, Promise<void>>();
  const pathOf = (digest: Digest) => join(directory, 'blobs', 'sha256', hexOf(digest));
  const transfer = async (reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void> => {
    if (await exists(pathOf(blob.digest))) return;
    const partial = await openPartialBlob(join(directory, 'partial', hexOf(blob.digest)), blob);
    try {
      await complete(
        partial,
        (startByte) => source.blob(reference, blob.digest, startByte, signal),
        blob,
        clock,
        signal,
      );
      await partial.finish(pathOf(blob.digest));
    } finally {
      await partial.close();
    }
  };
  return {
    pathOf,
    fetch: async (reference, blob, signal) => {
      for (let other = running.get(blob.digest); other !== undefined; other = running.get(blob.digest)) {
        // However it ended, this caller looks for itself: what a cancelled one left is gone on
        // with.
        await Promise.race([other.catch(() => undefined), aborted(signal)]);
        signal.throwIfAborted();
      }
      const own = transfer(reference, blob, signal).finally(() => running.delete(blob.digest));
      running.set(blob.digest, own);
      await own;
    },
  };
}

async function complete(
  partial: PartialBlob,
  open: (startByte: number) => ReturnType<HttpSource['blob']>,
  blob: Descriptor,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  let fruitless = 0;
  while (partial.sizeBytes() < blob.size) {
    const before = partial.sizeBytes();
    const failure = await attempt(partial, open);
    if (partial.sizeBytes() >= blob.size) return;
    fruitless = partial.sizeBytes() > before ? 0 : fruitless + 1;
    if (fruitless >= FRUITLESS_ATTEMPTS) {
      throw (
        failure ?? pullError('runtime/pull-failed', `Blob ${blob.digest} ends after ${before} of ${blob.size} bytes`)
      );
    }
    await clock.sleep(FIRST_PAUSE_MS * 2 ** fruitless, signal);
  }
}

/** One request; returns the error that may pass by itself, throws any other. */
async function attempt(
  partial: PartialBlob,
  open: (startByte: number) => ReturnType<HttpSource['blob']>,
): Promise<AppError | undefined> {
  try {
    const { startByte, chunks } = await open(partial.sizeBytes());
    await partial.append(startByte, chunks);
    return undefined;
  } catch (error) {
    if (error instanceof AppError && error.code === 'runtime/pull-failed') return error;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
