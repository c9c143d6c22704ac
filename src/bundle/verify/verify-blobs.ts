import { availableParallelism } from 'node:os';
import { bundleName, type VerifiedBundle } from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, digestFromHex, shortDigest } from '../../domain/model/digest.ts';
import { type FaultyBlob, isFaulty } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import { startWorkerThread } from '../../platform/async/worker-thread.ts';
import { bundleError } from '../bundle-error.ts';
import type { FileBundleReader } from '../read/bundle-reader.ts';
import { type ExpectedBlob, gone, mediaError, openRegularFile, sizeMisfit } from '../read/open-file.ts';
import { type JudgedBundle, readUntrusted } from './judge-bundle.ts';

export interface BlobFault extends FaultyBlob {
  /** The file of the blob, or the tar. */
  readonly file: string;
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
  queue.sort((a, b) => b.sizeBytes - a.sizeBytes);
  const next = queue.values();
  const faults = new Map<Digest, BlobFault>();
  const pool = new HashPool(threads, signal, onBytes);
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
    pool.end(new Error('the hash pool is closed'));
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

/** Returns undefined when the hash is right. @throws errors of `openRegularFile()` */
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

/** Blobs of a delta's base, with sizes in bytes. Other bundles have none. */
export function blobsLeftToBase({ missing, blobs }: Pick<JudgedBundle, 'missing' | 'blobs'>): Map<Digest, number> {
  const absent = missing.filter((blob) => !isFaulty(blob));
  return new Map(absent.map(({ digest }) => [digest, blobs.get(digest) ?? 0]));
}

export interface CheckedBase {
  /** `ocp@4.13.6`. */
  readonly name: string;
  /** Blobs of `left` that are missing or damaged in the base. */
  readonly faulty: readonly FaultyBlob[];
  /** The number of blobs of `left` that are in the base of the base, which is a delta. */
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
  options: { readonly remaining: ReadonlyMap<Digest, number>; readonly full: boolean },
  signal: AbortSignal,
): Promise<CheckedBase> {
  const { bundle, missing } = await readUntrusted(reader, signal);
  checkIdentity(reader, bundle, expected);
  const again = new Set(missing.filter((blob) => !isFaulty(blob)).map(({ digest }) => digest));
  const wanted = new Map([...options.remaining].filter(([digest]) => !again.has(digest)));
  const faulty = options.full ? await verifyBlobs(reader, wanted, signal) : await misfits(reader, wanted, signal);
  return { name: bundleName(bundle.payload), faulty, leftAgain: options.remaining.size - wanted.size };
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

type HashResult = Exclude<HashMessage, { readonly kind: 'progress' }>;

const HEAP = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 };

/** An abort ends the workers after their current read of 1 MiB. */
class HashPool {
  private readonly seats: readonly HashSeat[];
  private readonly onAbort = () => this.end(this.signal.reason);

  /** `onBytes`: those since the last call. */
  constructor(
    threads: number,
    private readonly signal: AbortSignal,
    onBytes: (bytes: number) => void,
  ) {
    this.seats = Array.from({ length: threads }, () => new HashSeat(onBytes));
    signal.addEventListener('abort', this.onAbort, { once: true });
  }

  /** Tasks beyond the number of threads wait. @throws the signal's reason at once after an abort */
  async hash(task: HashTask): Promise<HashResult> {
    this.signal.throwIfAborted();
    const [first, ...others] = this.seats;
    if (first === undefined) throw new Error('a pool needs a thread');
    return others.reduce((best, seat) => (seat.waiting.length < best.waiting.length ? seat : best), first).hash(task);
  }

  /** Waiting tasks are rejected. */
  end(reason: unknown): void {
    this.signal.removeEventListener('abort', this.onAbort);
    for (const seat of this.seats) seat.worker.end(reason);
  }
}

/** One worker that answers its tasks in order. */
class HashSeat {
  readonly waiting: { readonly resolve: (result: HashResult) => void; readonly reject: (reason: unknown) => void }[] =
    [];
  private ended: { readonly reason: unknown } | undefined;
  readonly worker;

  constructor(onBytes: (bytes: number) => void) {
    this.worker = startWorkerThread<HashTask, HashMessage>({
      program: `(${runHashWorker.toString()})()`,
      heap: HEAP,
      onMessage: (message) => {
        if (message.kind === 'progress') onBytes(message.bytes);
        else this.waiting.shift()?.resolve(message);
      },
      onEnd: (reason) => {
        this.ended = { reason };
        for (const { reject } of this.waiting.splice(0)) reject(reason);
      },
    });
  }

  hash(task: HashTask): Promise<HashResult> {
    return new Promise<HashResult>((resolve, reject) => {
      if (this.ended !== undefined) return reject(this.ended.reason);
      this.waiting.push({ resolve, reject });
      this.worker.post(task);
    });
  }
}

/** `fd` belongs to the process and stays open until the answer. */
interface HashTask {
  readonly fd: number;
  readonly startByte: number;
  readonly sizeBytes: number;
}

/** Any number of `progress`, then one of the others. `ended`: too early, at `atByte`. */
type HashMessage =
  | { readonly kind: 'progress'; readonly bytes: number }
  | { readonly kind: 'done'; readonly sha256Hex: string }
  | { readonly kind: 'ended'; readonly atByte: number }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

/**
 * The program of a worker. It reads synchronously into one buffer of 1 MiB, so that its memory does
 * not depend on the file.
 * INVARIANT: this function runs from its text, and uses nothing outside itself but globals.
 */
function runHashWorker(): void {
  const { createHash } = process.getBuiltinModule('node:crypto');
  const { readSync } = process.getBuiltinModule('node:fs');
  const { parentPort } = process.getBuiltinModule('node:worker_threads');
  const buffer = Buffer.allocUnsafeSlow(1024 * 1024);
  // Each message wakes the main thread, which shares its core.
  const reportBytes = 16 * buffer.length;

  const hash = ({ fd, startByte, sizeBytes }: HashTask): HashMessage => {
    const sha256 = createHash('sha256');
    let unreported = 0;
    for (let at = 0; at < sizeBytes; ) {
      const filled = readSync(fd, buffer, 0, Math.min(buffer.length, sizeBytes - at), startByte + at);
      if (filled === 0) return { kind: 'ended', atByte: at };
      sha256.update(filled === buffer.length ? buffer : buffer.subarray(0, filled));
      at += filled;
      unreported += filled;
      if (unreported < reportBytes && at < sizeBytes) continue;
      parentPort?.postMessage({ kind: 'progress', bytes: unreported } satisfies HashMessage);
      unreported = 0;
    }
    return { kind: 'done', sha256Hex: sha256.digest('hex') };
  };
  parentPort?.on('message', (task: HashTask) => {
    try {
      parentPort.postMessage(hash(task));
    } catch (error) {
      const { code = 'unknown', message } = error as NodeJS.ErrnoException;
      parentPort.postMessage({ kind: 'failed', code, message } satisfies HashMessage);
    }
  });
}
