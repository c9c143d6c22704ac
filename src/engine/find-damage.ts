import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/digest.ts';
import type { BlobSource } from './ports.ts';

/** A blob whose bytes are not what its name says. */
export interface DamagedBlob {
  readonly digest: Digest;
  readonly actual: Digest;
  readonly sizeBytes: number;
}

/**
 * Reads blobs until one is found whose bytes have another digest. Used after the runtime refused an image, so that the bad blob can be named;
 * a blob that can't be read is passed over, since that has its own error.
 */
export async function findDamagedBlob(
  digests: readonly Digest[],
  source: BlobSource,
  signal: AbortSignal,
): Promise<DamagedBlob | undefined> {
  for (const digest of digests) {
    const damaged = await checkBlob(digest, source, signal).catch(() => undefined);
    signal.throwIfAborted();
    if (damaged !== undefined) return damaged;
  }
  return undefined;
}

async function checkBlob(digest: Digest, source: BlobSource, signal: AbortSignal): Promise<DamagedBlob | undefined> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of source.read(digest, 0, signal)) {
    hash.update(chunk);
    sizeBytes += chunk.length;
  }
  const actual = digestFromHex(hash.digest('hex'));
  return actual === digest ? undefined : { digest, actual, sizeBytes };
}
