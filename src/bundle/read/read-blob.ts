import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import type { FaultyBlob } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import type { BundleReader } from './bundle-reader.ts';

/** A blob read whole and found right, or why it is missing. */
export type BlobResult =
  | { readonly kind: 'read'; readonly bytes: Buffer }
  | { readonly kind: 'missing'; readonly missing: FaultyBlob };

/** What is known of a blob before it is looked at: its digest and its size in bytes. */
export interface ExpectedBlob {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/**
 * Reads a small blob whole and checks its size and digest. The size was checked against its limit
 * by the caller; no more than that is taken in, even of a file that grows meanwhile. What can't be
 * read counts as `damaged`.
 *
 * @throws AppError `media/gone` (`wait`)
 */
export async function readBlob(reader: BundleReader, expected: ExpectedBlob, signal: AbortSignal): Promise<BlobResult> {
  const { digest, sizeBytes } = expected;
  const misfit = await sizeMisfit(reader, expected, signal);
  if (misfit !== undefined) return { kind: 'missing', missing: misfit };
  const chunks: Buffer[] = [];
  const hash = createHash('sha256');
  let readBytes = 0;
  try {
    for await (const chunk of reader.read(digest, 0, signal)) {
      readBytes += chunk.length;
      if (readBytes > sizeBytes) break;
      chunks.push(chunk);
      hash.update(chunk);
    }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'media/read') throw error;
    return { kind: 'missing', missing: { digest, why: 'damaged' } };
  }
  const found = digestFromHex(hash.digest('hex'));
  return found === digest
    ? { kind: 'read', bytes: Buffer.concat(chunks) }
    : { kind: 'missing', missing: { digest, why: 'damaged' } };
}

/**
 * Looks at the size of a blob only. @returns undefined when it is right. @throws AppError
 * `media/read`, `media/gone`
 */
export async function sizeMisfit(
  reader: BundleReader,
  expected: ExpectedBlob,
  signal: AbortSignal,
): Promise<FaultyBlob | undefined> {
  const found = await reader.sizeOf(expected.digest, signal);
  if (found === undefined) return { digest: expected.digest, why: 'absent' };
  return found === expected.sizeBytes ? undefined : { digest: expected.digest, why: 'truncated' };
}
