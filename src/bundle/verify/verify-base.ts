import { bundleName, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, shortDigest } from '../../domain/model/digest.ts';
import { type FaultyBlob, isFaulty } from '../../domain/model/medium.ts';
import { bundleError } from '../bundle-error.ts';
import type { FileBundleReader } from '../read/bundle-reader.ts';
import { sizeMisfit } from '../read/read-blob.ts';
import { type JudgedBundle, readUntrusted } from './judge-bundle.ts';
import { verifyBlobs } from './verify-blobs.ts';

/**
 * The blobs that a delta takes from its base, with their sizes in bytes. Empty for
 * any other bundle.
 */
export function blobsLeftToBase({ missing, blobs }: Pick<JudgedBundle, 'missing' | 'blobs'>): Map<Digest, number> {
  const left = missing.filter((blob) => !isFaulty(blob));
  return new Map(left.map(({ digest }) => [digest, blobs.get(digest) ?? 0]));
}

/** The result of checking a base. */
export interface CheckedBase {
  /** `ocp@4.13.6`. */
  readonly name: string;
  /** Blobs of `left` that are missing or damaged in the base. */
  readonly faulty: readonly FaultyBlob[];
  /** Blobs of `left` that the base, a delta itself, takes from its own base. */
  readonly leftAgain: number;
}

/**
 * Checks that a bundle is the base of a delta and has the blobs that the delta takes from it. It
 * need not be signed, since the delta names it by digest.
 *
 * @param options.full reads the blobs and checks their digests; else their sizes only.
 * @throws AppError `bundle/inconsistent` (`reject`) when it is another bundle; as `readUntrusted()`
 *   does.
 */
export async function checkBase(
  reader: FileBundleReader,
  expected: BundleId | undefined,
  options: { readonly left: ReadonlyMap<Digest, number>; readonly full: boolean },
  signal: AbortSignal,
): Promise<CheckedBase> {
  const { bundle, missing } = await readUntrusted(reader, signal);
  checkIdentity(reader, bundle, expected);
  const again = new Set(missing.filter((blob) => !isFaulty(blob)).map(({ digest }) => digest));
  const wanted = new Map([...options.left].filter(([digest]) => !again.has(digest)));
  const faulty = options.full ? await verifyBlobs(reader, wanted, signal) : await misfits(reader, wanted, signal);
  return { name: bundleName(bundle.payload), faulty, leftAgain: options.left.size - wanted.size };
}

function checkIdentity(
  { path }: FileBundleReader,
  { bundleId, payload }: VerifiedBundle,
  expected: BundleId | undefined,
) {
  if (bundleId === expected) return;
  const wanted = expected === undefined ? 'the bundle builds on none' : `the bundle builds on ${expected}`;
  throw bundleError('bundle/inconsistent', `${path} is ${bundleName(payload)}, ${shortDigest(bundleId)}: ${wanted}`);
}

async function misfits(reader: FileBundleReader, blobs: ReadonlyMap<Digest, number>, signal: AbortSignal) {
  const found: FaultyBlob[] = [];
  for (const [digest, sizeBytes] of blobs) {
    const misfit = await sizeMisfit(reader, { digest, sizeBytes }, signal);
    if (misfit !== undefined) found.push(misfit);
  }
  return found;
}
