import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { type Descriptor, manifestMediaTypes } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, digestFromHex, hexOf, shortDigest } from '../../domain/model/digest.ts';
import { mirrorPathOf, type Reference } from '../../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { syncFolder } from '../../platform/files/durable-file.ts';
import { responseTo } from '../../platform/http.ts';
import { pullError, writeError } from '../cri/runtime-error.ts';

/** Attempts in a row without a new byte. The pauses between them double. */
const FRUITLESS_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

export interface BlobFetch {
  /** It may be absent. */
  pathOf(digest: Digest): string;
  /**
   * Resumes a broken transfer from the exact byte, also one of an earlier process. The blob gets
   * its name only when its digest is right. Concurrent calls for one digest share a transfer.
   * @throws AppError with a `PullErrorCode`
   */
  fetch(reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void>;
}

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
        // This caller checks again then, and resumes a cancelled transfer.
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

/** Returns an error that may be temporary, throws any other. */
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

interface PartialBlob {
  sizeBytes(): number;
  /** Skips earlier bytes. @throws AppError `runtime/digest-mismatch`, `runtime/no-space` */
  append(startByte: number, chunks: AsyncIterable<Buffer>): Promise<void>;
  /** @throws AppError `runtime/digest-mismatch`; then the file is removed */
  finish(path: string): Promise<void>;
  close(): Promise<void>;
}

/** It may have the start of the blob from an earlier attempt or process. */
export async function openPartialBlob(path: string, blob: Descriptor): Promise<PartialBlob> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'a');
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk as Buffer);
    sizeBytes += (chunk as Buffer).length;
  }
  const discard = async (why: string) => {
    await rm(path, { force: true });
    return pullError('runtime/digest-mismatch', `Blob ${shortDigest(blob.digest)} is not what it should be: ${why}`);
  };
  return {
    sizeBytes: () => sizeBytes,
    close: () => file.close(),
    append: async (startByte, chunks) => {
      let passOver = sizeBytes - startByte;
      for await (const chunk of chunks) {
        const fresh = chunk.subarray(Math.min(passOver, chunk.length));
        passOver -= chunk.length - fresh.length;
        if (sizeBytes + fresh.length > blob.size) throw await discard(`more than ${blob.size} bytes came`);
        await file.appendFile(fresh).catch(asWriteError(path));
        hash.update(fresh);
        sizeBytes += fresh.length;
      }
    },
    finish: async (finalPath) => {
      const actual = digestFromHex(hash.copy().digest('hex'));
      if (actual !== blob.digest) throw await discard(`its bytes have the digest ${shortDigest(actual)}`);
      await file.sync().catch(asWriteError(path));
      await mkdir(dirname(finalPath), { recursive: true });
      await rename(path, finalPath);
      await syncFolder(dirname(finalPath)).catch(asWriteError(finalPath));
    },
  };
}

function asWriteError(path: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof AppError ? error : writeError(path, error);
  };
}

/** Its digest is not checked yet. */
interface RawManifest {
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** `startByte` is 0 when the registry doesn't support ranges. */
interface BlobStream {
  readonly startByte: number;
  readonly chunks: AsyncIterable<Buffer>;
}

/** OCI distribution-spec 1.1, pull. Throws AppError; `runtime/pull-failed` may be temporary. */
export interface HttpSource {
  manifest(reference: Reference, tagOrDigest: string, signal: AbortSignal): Promise<RawManifest>;
  blob(reference: Reference, digest: Digest, startByte: number, signal: AbortSignal): Promise<BlobStream>;
  close(): void;
}

/** `baseUrl`: `http://127.0.0.1:5000/v2/<token>`. */
export function createHttpSource(baseUrl: string): HttpSource {
  const agent = new Agent({ keepAlive: true });
  const url = ({ registry, repository }: Reference, tail: string) =>
    `${baseUrl}/${mirrorPathOf(repository)}/${tail}?ns=${encodeURIComponent(registry)}`;
  const open = (address: string, headers: Record<string, string>, signal: AbortSignal) =>
    responseTo(
      get(address, { agent, headers: { ...headers, 'user-agent': 'stickpin/embedded' }, signal }),
      signal,
    ).catch((error: unknown) => {
      throw transferError(address, error, signal);
    });
  return {
    close: () => agent.destroy(),
    manifest: async (reference, tagOrDigest, signal) => {
      const address = url(reference, `manifests/${tagOrDigest}`);
      const response = await open(address, { accept: [...manifestMediaTypes].join(', ') }, signal);
      refuseStatus(response, address, [200]);
      const bytes = Buffer.concat(await collect(response, address, signal));
      return { mediaType: mediaTypeOf(response), bytes };
    },
    blob: async (reference, digest, startByte, signal) => {
      const address = url(reference, `blobs/${digest}`);
      const range: Record<string, string> = startByte === 0 ? {} : { range: `bytes=${startByte}-` };
      const response = await open(address, range, signal);
      refuseStatus(response, address, [200, 206]);
      const given = response.statusCode === 206 ? rangeStart(response.headers['content-range']) : 0;
      if (given === undefined || given > startByte) {
        response.destroy();
        throw pullError('runtime/pull-failed', `${address} answered another range than asked for`);
      }
      return { startByte: given, chunks: converted(response, address, signal) };
    },
  };
}

async function* converted(response: IncomingMessage, address: string, signal: AbortSignal): AsyncIterable<Buffer> {
  try {
    for await (const chunk of response) yield chunk as Buffer;
  } catch (error) {
    throw transferError(address, error, signal);
  }
}

async function collect(response: IncomingMessage, address: string, signal: AbortSignal): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of converted(response, address, signal)) {
    sizeBytes += chunk.length;
    if (sizeBytes > limits.manifestBytes)
      throw pullError('runtime/digest-mismatch', `${address} is larger than a manifest may be`);
    chunks.push(chunk);
  }
  return chunks;
}

function refuseStatus(response: IncomingMessage, address: string, accepted: readonly number[]): void {
  const { statusCode = 0 } = response;
  if (accepted.includes(statusCode)) return;
  response.resume(); // so that the connection can be used again
  throw pullError(
    statusCode === 404 ? 'runtime/not-found' : 'runtime/pull-failed',
    `${address} answered ${statusCode}`,
  );
}

function rangeStart(contentRange: string | undefined): number | undefined {
  const start = /^bytes (\d+)-/.exec(contentRange ?? '')?.[1];
  return start === undefined ? undefined : Number(start);
}

function mediaTypeOf(response: IncomingMessage): string {
  return (response.headers['content-type'] ?? '').split(';', 1)[0]?.trim() ?? '';
}

function transferError(address: string, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return pullError('runtime/cancelled', `Transfer of ${address} was cancelled`, error);
  const reason = systemCodeOf(error) ?? reasonOf(error);
  return pullError('runtime/pull-failed', `Transfer of ${address} broke: ${reason}`, error);
}
