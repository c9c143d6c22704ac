import type { Digest } from '../domain/digest.ts';
import type { FaultyBlob } from '../domain/medium.ts';
import type { BundleReader } from './bundle-reader.ts';
import { inspectBlob } from './read-blob.ts';

/**
 * Reads every blob of a bundle to its end and checks its digest, one after the other in the order given.
 *
 * @param blobs digests with their sizes in bytes, as `judgeBundle()` gives them.
 * @param onBytes called with the size of each chunk that was read.
 * @returns the blobs that are not as they should be, each once.
 * @throws AppError `media/gone` (`wait`), `media/read` (`retry`)
 */
export async function verifyBlobs(
  reader: BundleReader,
  blobs: ReadonlyMap<Digest, number>,
  signal: AbortSignal,
  onBytes: (bytes: number) => void = () => undefined,
): Promise<FaultyBlob[]> {
  const missing: FaultyBlob[] = [];
  for (const [digest, sizeBytes] of blobs) {
    const found = await inspectBlob(reader, { digest, sizeBytes }, signal, (chunk) => onBytes(chunk.length));
    if (found !== undefined) missing.push(found);
  }
  return missing;
}
