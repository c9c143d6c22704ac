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

/** Attempts in a row without a new byte before a transfer fails. The pauses between them double. */
const FRUITLESS_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

/** Downloads blobs into an OCI image layout. */
export interface BlobFetch {
  /** The path of the blob, whether or not it is there. */
  pathOf(digest: Digest): string;
  /**
   * Makes sure that the blob is in the layout. A broken transfer is resumed from the exact byte,
   * also one of an earlier process. The blob gets its name only when its digest is right.
   * Concurrent calls for one digest share a transfer.
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
        // After the other transfer has ended, this caller checks again. It resumes a cancelled one.
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

/** Makes one request. Returns an error that may be temporary, throws any other. */
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
