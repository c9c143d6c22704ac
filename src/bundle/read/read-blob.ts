import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import type { FaultyBlob } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import type { BundleReader } from './bundle-reader.ts';

/** A blob that was read and checked, or why it is missing. */
export type BlobResult =
  | { readonly kind: 'read'; readonly bytes: Buffer }
  | { readonly kind: 'missing'; readonly missing: FaultyBlob };

/** The expected digest and size in bytes of a blob. */
export interface ExpectedBlob {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/**
 * Reads a small blob and checks its size and digest. The caller has checked the size against its
 * limit; never more is read, even of a file that grows meanwhile. An unreadable blob counts as
 * `damaged`.
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
 * Checks only the size of a blob. @returns undefined when it is right. @throws AppError
 * `media/read`, `media/gone`
 */
export async function sizeMisfit(
  reader: Pick<BundleReader, 'sizeOf'>,
  expected: ExpectedBlob,
  signal: AbortSignal,
): Promise<FaultyBlob | undefined> {
  const found = await reader.sizeOf(expected.digest, signal);
  if (found === undefined) return { digest: expected.digest, why: 'absent' };
  return found === expected.sizeBytes ? undefined : { digest: expected.digest, why: 'truncated' };
}
