import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { type Descriptor, manifestMediaTypes } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { type Digest, digestFromHex, hexOf, shortDigest } from '../../domain/model/digest.ts';
import { mirrorPathOf, type Reference } from '../../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import { HttpClient, wholeBody } from '../../platform/http-client.ts';
import { pullError, writeError } from '../cri/runtime-error.ts';

/** Attempts in a row without a new byte. */
const FRUITLESS_ATTEMPTS = 5;
const PAUSES = { firstMs: 100, longestMs: 1_600 };

/** Pulls from our registry (OCI distribution-spec 1.1) into an OCI image layout. */
export class BlobFetch {
  private readonly http = new HttpClient({}, { keepAlive: true });
  private readonly running = new Map<Digest, Promise<void>>();

  /** @param baseUrl `http://127.0.0.1:5000/v2/<token>` */
  constructor(
    private readonly directory: string,
    private readonly baseUrl: string,
    private readonly clock: Clock,
  ) {}

  /** It may be absent. */
  pathOf(digest: Digest): string {
    return join(this.directory, 'blobs', 'sha256', hexOf(digest));
  }

  close(): void {
    this.http.close();
  }

  /** Its digest is not checked yet. @throws AppError with a `PullErrorCode` */
  async manifest(reference: Reference, tagOrDigest: string, signal: AbortSignal) {
    const address = this.url(reference, `manifests/${tagOrDigest}`);
    const response = await this.open(address, { accept: [...manifestMediaTypes].join(', ') }, 200, signal);
    const body = bytesOf(response, address, signal);
    const bytes = await wholeBody(body, limits.manifestBytes, () =>
      pullError('runtime/digest-mismatch', `${address} is larger than a manifest may be`),
    );
    const mediaType = (response.headers['content-type'] ?? '').split(';', 1)[0]?.trim() ?? '';
    return { mediaType, bytes };
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
    const transfer = this.transfer(reference, blob, signal).finally(() => running.delete(blob.digest));
    running.set(blob.digest, transfer);
    await transfer;
  }

  private async transfer(reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void> {
    const path = this.pathOf(blob.digest);
    if ((await sizeOf(path)) !== undefined) return;
    const partial = join(this.directory, 'partial', hexOf(blob.digest));
    await mkdir(join(path, '..'), { recursive: true });
    await mkdir(join(partial, '..'), { recursive: true });
    for (let fruitless = 0; ; ) {
      const before = (await sizeOf(partial)) ?? 0;
      try {
        await this.complete(partial, reference, blob, signal);
        await rename(partial, path);
        return;
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'runtime/pull-failed') throw error;
        fruitless = ((await sizeOf(partial)) ?? 0) > before ? 0 : fruitless + 1;
        if (fruitless >= FRUITLESS_ATTEMPTS) throw error;
        await this.clock.sleep(pauseAfter(fruitless + 1, PAUSES), signal);
      }
    }
  }

  /** Appends the missing bytes. A file that is not the blob is removed. */
  private async complete(path: string, reference: Reference, blob: Descriptor, signal: AbortSignal): Promise<void> {
    const { digest, size } = blob;
    const hash = createHash('sha256');
    let sizeBytes = 0;
    const count = (chunk: Buffer) => {
      hash.update(chunk);
      sizeBytes += chunk.length;
    };
    const discard = async (why: string) => {
      await rm(path, { force: true });
      return pullError('runtime/digest-mismatch', `Blob ${shortDigest(digest)} is not what it should be: ${why}`);
    };
    const file = await open(path, 'a');
    try {
      for await (const chunk of createReadStream(path)) count(chunk as Buffer);
      for await (const chunk of sizeBytes < size ? this.blob(reference, digest, sizeBytes, signal) : []) {
        if (sizeBytes + chunk.length > size) throw await discard(`more than ${size} bytes came`);
        await file.appendFile(chunk).catch((error: unknown) => {
          throw writeError(path, error);
        });
        count(chunk);
      }
    } finally {
      await file.close();
    }
    if (sizeBytes < size)
      throw pullError('runtime/pull-failed', `Blob ${digest} ends after ${sizeBytes} of ${size} bytes`);
    const actual = digestFromHex(hash.digest('hex'));
    if (actual !== digest) throw await discard(`its bytes have the digest ${shortDigest(actual)}`);
  }

  private async *blob(reference: Reference, digest: Digest, startByte: number, signal: AbortSignal) {
    const address = this.url(reference, `blobs/${digest}`);
    const [headers, status] = startByte === 0 ? [{}, 200] : [{ range: `bytes=${startByte}-` }, 206];
    yield* bytesOf(await this.open(address, headers, status, signal), address, signal);
  }

  private url({ registry, repository }: Reference, tail: string): string {
    return `${this.baseUrl}/${mirrorPathOf(repository)}/${tail}?ns=${encodeURIComponent(registry)}`;
  }

  private async open(
    address: string,
    headers: Readonly<Record<string, string>>,
    status: number,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const sent = { ...headers, 'user-agent': 'stickpin/embedded' };
    const response = await this.http.open({ url: address, headers: sent }, signal).catch((error: unknown) => {
      throw transferError(address, error, signal);
    });
    if (response.statusCode === status) return response;
    response.resume(); // so that the connection can be used again
    const code = response.statusCode === 404 ? 'runtime/not-found' : 'runtime/pull-failed';
    throw pullError(code, `${address} answered ${response.statusCode}`);
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.size;
}

async function* bytesOf(response: IncomingMessage, address: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of response) yield chunk as Buffer;
  } catch (error) {
    throw transferError(address, error, signal);
  }
}

function transferError(address: string, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return pullError('runtime/cancelled', `Transfer of ${address} was cancelled`, error);
  const reason = systemCodeOf(error) ?? reasonOf(error);
  return pullError('runtime/pull-failed', `Transfer of ${address} broke: ${reason}`, error);
}
