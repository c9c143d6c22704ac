import { availableParallelism } from 'node:os';
import { bundleName, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, digestFromHex, shortDigest } from '../../domain/model/digest.ts';
import { type FaultyBlob, isFaulty } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';
import type { FileBundleReader } from '../read/bundle-reader.ts';
import { type ExpectedBlob, gone, mediaError, openRegularFile, sizeMisfit } from '../read/open-file.ts';
import { createHashPool, type HashPool } from './hash-pool.ts';
import { type JudgedBundle, readUntrusted } from './judge-bundle.ts';

export interface BlobFault extends FaultyBlob {
  /** The file of the blob, or the tar. */
  readonly file: string;
  /** As `it has digest sha256:…`. */
  readonly detail: string;
}

/** Faster than any medium. */
const MAX_THREADS = 8;

/** A thread need not wait for the next file. */
const BLOBS_PER_THREAD = 2;

/**
 * Checks digests on a thread for each core; large blobs first, so that threads end together.
 *
 * @returns missing and damaged (also unreadable) blobs, each once, in the given order
 * @throws AppError `media/gone` (`wait`); the signal's reason at once after an abort
 */
export async function verifyBlobs(
  reader: FileBundleReader,
  blobs: ReadonlyMap<Digest, number>,
  signal: AbortSignal,
  onBytes: (bytes: number) => void = () => undefined,
): Promise<BlobFault[]> {
  signal.throwIfAborted();
  const threads = Math.min(MAX_THREADS, availableParallelism(), blobs.size);
  const queue = [...blobs].map(([digest, sizeBytes]) => ({ digest, sizeBytes }));
  queue.sort((left, right) => right.sizeBytes - left.sizeBytes);
  const next = queue.values();
  const faults = new Map<Digest, BlobFault>();
  const pool = createHashPool(threads, signal, onBytes);
  const work = async (): Promise<void> => {
    // All loops share one iterator.
    for (const blob of next) {
      const fault = await verifyBlob(reader, blob, pool, signal);
      if (fault !== undefined) faults.set(blob.digest, fault);
    }
  };
  try {
    await Promise.all(Array.from({ length: threads * BLOBS_PER_THREAD }, work));
  } finally {
    pool.close();
  }
  return [...blobs.keys()].flatMap((digest) => faults.get(digest) ?? []);
}

async function verifyBlob(
  reader: FileBundleReader,
  { digest, sizeBytes }: ExpectedBlob,
  pool: HashPool,
  signal: AbortSignal,
): Promise<BlobFault | undefined> {
  let { path: file } = reader;
  try {
    const place = await reader.placeOf(digest, signal);
    file = place.file;
    if (place.sizeBytes === undefined) return { digest, why: 'absent', file, detail: 'it is not there' };
    if (place.sizeBytes !== sizeBytes) {
      return { digest, why: 'truncated', file, detail: `it has ${place.sizeBytes} bytes, and not ${sizeBytes}` };
    }
    const detail = await hashMisfit(place.file, { digest, sizeBytes, startByte: place.startByte }, pool);
    return detail === undefined ? undefined : { digest, why: 'damaged', file, detail };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError) || !['media/read', 'bundle/link'].includes(error.code)) throw error;
    return { digest, why: 'damaged', file, detail: error.message };
  }
}

/** Undefined when right. @throws AppError as `openRegularFile()` */
async function hashMisfit(
  file: string,
  expected: ExpectedBlob & { readonly startByte: number },
  pool: HashPool,
): Promise<string | undefined> {
  const opened = await openRegularFile(file);
  if (opened === undefined) throw gone(file);
  try {
    const { startByte, sizeBytes } = expected;
    const result = await pool.hash({ fd: opened.handle.fd, startByte, sizeBytes });
    if (result.kind === 'ended') return `it ended at byte ${result.atByte}: it is being changed or the medium is bad`;
    if (result.kind === 'failed') throw mediaError(file, Object.assign(new Error(result.message), result));
    const found = digestFromHex(result.sha256Hex);
    return found === expected.digest ? undefined : `it has digest ${found}`;
  } finally {
    await opened.handle.close();
  }
}

/** Blobs of a delta's base, with sizes in bytes. Empty for other bundles. */
export function blobsLeftToBase({ missing, blobs }: Pick<JudgedBundle, 'missing' | 'blobs'>): Map<Digest, number> {
  const left = missing.filter((blob) => !isFaulty(blob));
  return new Map(left.map(({ digest }) => [digest, blobs.get(digest) ?? 0]));
}

export interface CheckedBase {
  /** `ocp@4.13.6`. */
  readonly name: string;
  /** Of `left`, missing or damaged in the base. */
  readonly faulty: readonly FaultyBlob[];
  /** Of `left`, in the base of the base, a delta itself. */
  readonly leftAgain: number;
}

/**
 * The base may be unsigned: the delta names it by digest. `full`: checks digests, not only sizes.
 *
 * @throws AppError `bundle/inconsistent` for another bundle; as `readUntrusted()`
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
