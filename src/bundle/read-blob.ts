import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/digest.ts';
import type { FaultyBlob } from '../domain/medium.ts';
import { AppError } from '../platform/app-error.ts';
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
 * Reads a small blob whole and checks its size and digest. The size was checked against its limit by the caller. What can't be read counts
 * as `damaged`.
 *
 * @throws AppError `media/gone` (`wait`)
 */
export async function readBlob(reader: BundleReader, expected: ExpectedBlob, signal: AbortSignal): Promise<BlobResult> {
  const chunks: Buffer[] = [];
  const missing = await inspectBlob(reader, expected, signal, (chunk) => chunks.push(chunk));
  return missing === undefined ? { kind: 'read', bytes: Buffer.concat(chunks) } : { kind: 'missing', missing };
}

/**
 * Reads a blob to its end and checks its size and digest, without keeping it.
 *
 * @returns undefined when it is right, else why it is missing.
 * @throws AppError `media/gone` (`wait`)
 */
export async function inspectBlob(
  reader: BundleReader,
  expected: ExpectedBlob,
  signal: AbortSignal,
  onChunk?: (chunk: Buffer) => void,
): Promise<FaultyBlob | undefined> {
  const misfit = await sizeMisfit(reader, expected, signal);
  if (misfit !== undefined) return misfit;
  const hash = createHash('sha256');
  try {
    for await (const chunk of reader.read(expected.digest, 0, signal)) {
      hash.update(chunk);
      onChunk?.(chunk);
    }
  } catch (error) {
    if (error instanceof AppError && error.code === 'media/read') return { digest: expected.digest, why: 'damaged' };
    throw error;
  }
  const found = digestFromHex(hash.digest('hex'));
  return found === expected.digest ? undefined : { digest: expected.digest, why: 'damaged' };
}

/** Looks at the size of a blob only. @returns undefined when it is right. @throws AppError `media/read`, `media/gone` */
export async function sizeMisfit(
  reader: BundleReader,
  expected: ExpectedBlob,
  signal: AbortSignal,
): Promise<FaultyBlob | undefined> {
  const found = await reader.sizeOf(expected.digest, signal);
  if (found === undefined) return { digest: expected.digest, why: 'absent' };
  return found === expected.sizeBytes ? undefined : { digest: expected.digest, why: 'truncated' };
}
