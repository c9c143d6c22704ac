import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/digest.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { BlobSource } from './ports.ts';

/** A blob that is not as it should be: its bytes have another digest, or they can't be read. */
export type BadBlob =
  | { readonly kind: 'damaged'; readonly digest: Digest; readonly actual: Digest; readonly sizeBytes: number }
  | { readonly kind: 'unreadable'; readonly digest: Digest; readonly why: string };

/**
 * Reads blobs until one is found whose bytes have another digest; without one, the first that can't be read. Used after the runtime refused an
 * image, so that the bad blob can be named.
 */
export async function findBadBlob(
  digests: readonly Digest[],
  source: BlobSource,
  signal: AbortSignal,
): Promise<BadBlob | undefined> {
  let unreadable: BadBlob | undefined;
  for (const digest of digests) {
    const bad = await checkBlob(digest, source, signal);
    if (bad?.kind === 'damaged') return bad;
    unreadable ??= bad;
  }
  return unreadable;
}

async function checkBlob(digest: Digest, source: BlobSource, signal: AbortSignal): Promise<BadBlob | undefined> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of source.read(digest, 0, signal)) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    }
  } catch (error) {
    signal.throwIfAborted();
    const isBad = error instanceof AppError && error.code === 'media/read';
    return isBad ? { kind: 'unreadable', digest, why: reasonOf(error) } : undefined;
  }
  const actual = digestFromHex(hash.digest('hex'));
  return actual === digest ? undefined : { kind: 'damaged', digest, actual, sizeBytes };
}
