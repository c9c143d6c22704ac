import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { type Descriptor, manifestMediaTypes } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, digestFromHex, hexOf, shortDigest } from '../../domain/model/digest.ts';
import { mirrorPathOf, type Reference } from '../../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { syncFolder } from '../../platform/files/durable-file.ts';
import { responseTo } from '../../platform/http.ts';
import { pullError, writeError } from '../cri/runtime-error.ts';

/** Attempts in a row without a new byte. The pauses between them double. */
const FRUITLESS_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 100;

/** The blobs of an OCI image layout. */
export class BlobFetch {
  private readonly running = new Map<Digest, Promise<void>>();

  constructor(
    private readonly directory: string,
    private readonly source: HttpSource,
    private readonly clock: Clock,
  ) {}

  /** It may be absent. */
  pathOf(digest: Digest): string {
    return join(this.directory, 'blobs', 'sha256', hexOf(digest));
  }

  /**
   * Resumes a broken transfer from the exact byte, also one of an earlier process. The blob gets
   * its name only when its digest is right. Concurrent calls for one digest share a transfer.
   * @throws AppError with a `PullErrorCode`
   */
  async fetch(reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void> {
    const { running } = this;
    for (let other = running.get(blob.digest); other !== undefined; other = running.get(blob.digest)) {
      // This caller checks again then, and resumes a cancelled transfer.
      await untilAborted(
        other.catch(() => undefined),
        signal,
      );
    }
    const own = this.transfer(reference, blob, signal).finally(() => running.delete(blob.digest));
    running.set(blob.digest, own);
    await own;
  }

  private async transfer(reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void> {
    const path = this.pathOf(blob.digest);
    if (await exists(path)) return;
    const partial = await openPartialBlob(join(this.directory, 'partial', hexOf(blob.digest)), blob);
    const open = (startByte: number) => this.source.blob(reference, blob.digest, startByte, signal);
    try {
      await complete(partial, open, blob, this.clock, signal);
      await partial.finish(path);
    } finally {
      await partial.close();
    }
  }
}

async function complete(
  partial: PartialBlob,
  open: (startByte: number) => Promise<BlobStream>,
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
  open: (startByte: number) => Promise<BlobStream>,
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

/** It may have the start of the blob from an earlier attempt or process. */
export async function openPartialBlob(path: string, blob: Descriptor): Promise<PartialBlob> {
  await mkdir(dirname(path), { recursive: true });
  const file = await open(path, 'a');
  const partial = new PartialBlob(path, blob, file);
  for await (const chunk of createReadStream(path)) partial.count(chunk as Buffer);
  return partial;
}

class PartialBlob {
  private readonly hash = createHash('sha256');
  private length = 0;

  constructor(
    private readonly path: string,
    private readonly blob: Descriptor,
    private readonly file: FileHandle,
  ) {}

  sizeBytes(): number {
    return this.length;
  }

  /** Of bytes in the file. */
  count(bytes: Buffer): void {
    this.hash.update(bytes);
    this.length += bytes.length;
  }

  /** Skips earlier bytes. @throws AppError `runtime/digest-mismatch`, `runtime/no-space` */
  async append(startByte: number, chunks: AsyncIterable<Buffer>): Promise<void> {
    const { size } = this.blob;
    let passOver = this.length - startByte;
    for await (const chunk of chunks) {
      const fresh = chunk.subarray(Math.min(passOver, chunk.length));
      passOver -= chunk.length - fresh.length;
      if (this.length + fresh.length > size) throw await this.discard(`more than ${size} bytes came`);
      await this.file.appendFile(fresh).catch(asWriteError(this.path));
      this.count(fresh);
    }
  }

  /** @throws AppError `runtime/digest-mismatch`; then the file is removed */
  async finish(finalPath: string): Promise<void> {
    const actual = digestFromHex(this.hash.copy().digest('hex'));
    if (actual !== this.blob.digest) throw await this.discard(`its bytes have the digest ${shortDigest(actual)}`);
    await this.file.sync().catch(asWriteError(this.path));
    await mkdir(dirname(finalPath), { recursive: true });
    await rename(this.path, finalPath);
    await syncFolder(dirname(finalPath)).catch(asWriteError(finalPath));
  }

  close(): Promise<void> {
    return this.file.close();
  }

  private async discard(why: string): Promise<AppError> {
    await rm(this.path, { force: true });
    const what = `Blob ${shortDigest(this.blob.digest)} is not what it should be: ${why}`;
    return pullError('runtime/digest-mismatch', what);
  }
}

function asWriteError(path: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof AppError ? error : writeError(path, error);
  };
}

/** `startByte` is 0 when the registry doesn't support ranges. */
interface BlobStream {
  readonly startByte: number;
  readonly chunks: AsyncIterable<Buffer>;
}

/** OCI distribution-spec 1.1, pull. Throws AppError; `runtime/pull-failed` may be temporary. */
export class HttpSource {
  private readonly agent = new Agent({ keepAlive: true });

  /** @param baseUrl `http://127.0.0.1:5000/v2/<token>` */
  constructor(private readonly baseUrl: string) {}

  /** Its digest is not checked yet. */
  async manifest(reference: Reference, tagOrDigest: string, signal: AbortSignal) {
    const address = this.url(reference, `manifests/${tagOrDigest}`);
    const response = await this.open(address, { accept: [...manifestMediaTypes].join(', ') }, signal);
    refuseStatus(response, address, [200]);
    const bytes = Buffer.concat(await collect(response, address, signal));
    return { mediaType: mediaTypeOf(response), bytes };
  }

  async blob(reference: Reference, digest: Digest, startByte: number, signal: AbortSignal): Promise<BlobStream> {
    const address = this.url(reference, `blobs/${digest}`);
    const range: Record<string, string> = startByte === 0 ? {} : { range: `bytes=${startByte}-` };
    const response = await this.open(address, range, signal);
    refuseStatus(response, address, [200, 206]);
    const given = response.statusCode === 206 ? rangeStart(response.headers['content-range']) : 0;
    if (given === undefined || given > startByte) {
      response.destroy();
      throw pullError('runtime/pull-failed', `${address} answered another range than asked for`);
    }
    return { startByte: given, chunks: converted(response, address, signal) };
  }

  close(): void {
    this.agent.destroy();
  }

  private url({ registry, repository }: Reference, tail: string): string {
    return `${this.baseUrl}/${mirrorPathOf(repository)}/${tail}?ns=${encodeURIComponent(registry)}`;
  }

  private open(address: string, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const sent = { ...headers, 'user-agent': 'stickpin/embedded' };
    return responseTo(get(address, { agent: this.agent, headers: sent, signal }), signal).catch((error: unknown) => {
      throw transferError(address, error, signal);
    });
  }
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
