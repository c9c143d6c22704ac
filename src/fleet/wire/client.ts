import type { IncomingMessage } from 'node:http';
import * as v from 'valibot';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { entityTagOf } from '../../platform/http.ts';
import { wholeBody } from '../../platform/http-client.ts';
import { clip, oneLine, plainDocument } from '../../platform/plain-text.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { connectionError, type WireConnection, type WireRequest } from './connection.ts';
import {
  blobsSchema,
  busyError,
  type FleetDocument,
  fleetSchema,
  NEWS,
  type OfferedFile,
  type OffersDocument,
  type OffersErrorCode,
  offersError,
  offersSchema,
  parseBusy,
  wireLimits,
  wirePaths,
} from './documents.ts';

/** `etag` is for the next request. */
export interface Watched<T> {
  readonly document: T;
  readonly etag: string | undefined;
}

export interface WatchOptions {
  /** The known version; the answer is undefined while it is current. */
  readonly etag?: string | undefined;
  /** Long poll in milliseconds. Default 0. */
  readonly waitMs?: number;
  /** The server looks anew first (RFC 9111, `no-cache`). Default false. */
  readonly isFresh?: boolean;
  /** The server is to query this node too. Default false. */
  readonly hasNews?: boolean;
}

interface DocumentForm<T> {
  readonly path: string;
  readonly schema: v.GenericSchema<unknown, T>;
  readonly maxBytes: number;
}

const OFFERS = { path: wirePaths.offers, schema: offersSchema, maxBytes: wireLimits.offersBytes };
const FLEET = { path: wirePaths.fleet, schema: fleetSchema, maxBytes: wireLimits.fleetBytes };

/**
 * Methods throw AppError `offers/busy` (`wait`), `offers/failed` and `offers/unreachable`
 * (`retry`), `offers/answer` (`reject`), or whatever aborted the signal.
 */
export class OffersClient implements BlobSource {
  private readonly pace: BodyPace;

  /**
   * @param prefix before each path; default nothing
   * @param who for messages about answers; default: as the connection
   */
  constructor(
    private readonly connection: WireConnection,
    private readonly prefix = '',
    who = connection.who,
  ) {
    this.pace = { who, stallMs: connection.stallMs, progressMs: connection.progressMs };
  }

  /** Undefined when it has not changed. */
  offers(watch: WatchOptions, signal: AbortSignal): Promise<Watched<OffersDocument> | undefined> {
    return this.watched(OFFERS, watch, signal);
  }

  /** On `peers.sock` only. Undefined when it has not changed. */
  fleet(watch: WatchOptions, signal: AbortSignal): Promise<Watched<FleetDocument> | undefined> {
    return this.watched(FLEET, watch, signal);
  }

  /** Undefined when it is not offered. @param maxBytes default: as on a stick */
  async file(
    bundleId: BundleId,
    name: OfferedFile,
    signal: AbortSignal,
    maxBytes: number = wireLimits.fileBytes[name],
  ): Promise<Buffer | undefined> {
    const response = await this.request({ path: wirePaths.file(bundleId, name) }, signal);
    return response && this.readBody(response, name, maxBytes, signal);
  }

  /** Undefined when the bundle is not offered. */
  async blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined> {
    const response = await this.request({ path: wirePaths.blobs(bundleId) }, signal);
    if (response === undefined) return undefined;
    const form = { path: 'blobs.json', schema: blobsSchema, maxBytes: wireLimits.blobsBytes };
    const { blobs } = await this.readJson(response, form, signal);
    return new Map(Object.entries(blobs) as [Digest, number][]);
  }

  /** Requests the first byte of a blob, to test whether it is given now. */
  async tryBlob(digest: Digest, signal: AbortSignal): Promise<void> {
    const response = await this.request({ path: wirePaths.blob(digest), headers: { range: 'bytes=0-0' } }, signal);
    if (response !== undefined) await this.readBody(response, digest, 1, signal).catch(() => undefined);
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    const response = await this.request({ path: wirePaths.blob(digest), method: 'HEAD' }, signal);
    if (response === undefined) return undefined;
    response.resume();
    const length = response.headers['content-length'];
    if (length !== undefined && /^\d{1,15}$/.test(length)) return Number(length);
    throw badAnswer(this.pace.who, digest, new Error('its size is missing'));
  }

  async *read(digest: Digest, startByte: number, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
    const { who } = this.pace;
    const headers = startByte > 0 ? { range: `bytes=${startByte}-`, 'if-range': entityTagOf(digest) } : {};
    const response = await this.request({ path: wirePaths.blob(digest), headers }, signal);
    if (response === undefined) throw absent(who, digest);
    try {
      if (startByte > 0 && !response.headers['content-range']?.startsWith(`bytes ${startByte}-`)) {
        throw badAnswer(who, digest, new Error(`bytes from ${startByte} were asked for, and others came`));
      }
      yield* streamBody(response, this.pace, signal);
    } finally {
      if (!response.complete) response.destroy();
    }
  }

  /** Status 200, 206 or 304; undefined for 404. Other bodies are dropped. */
  private async request(wanted: WireRequest, signal: AbortSignal): Promise<IncomingMessage | undefined> {
    const { who } = this.pace;
    const response = await this.connection.open({ ...wanted, path: `${this.prefix}${wanted.path}` }, signal);
    const { statusCode: status = 0 } = response;
    if ([200, 206, 304].includes(status)) return response;
    const body = (await this.readBody(response, 'an error', wireLimits.errorBytes, signal)).toString('utf8');
    if (status === 404) return undefined;
    if (status === 503) throw busyError(who, parseBusy(response.headers['retry-after'], body));
    if (status === 500) throw offersError('offers/failed', `${who} can't give ${wanted.path}${reasonIn(body)}`);
    const what = `${who} answers ${wanted.path} with status ${status}${reasonIn(body)}`;
    throw offersError('offers/unreachable', what);
  }

  private async watched<T>(
    form: DocumentForm<T>,
    { etag, waitMs = 0, isFresh = false, hasNews = false }: WatchOptions,
    signal: AbortSignal,
  ): Promise<Watched<T> | undefined> {
    const prefer = etag !== undefined && waitMs > 0 ? `wait=${Math.ceil(waitMs / 1_000)}` : undefined;
    const headers = defined({ 'if-none-match': etag, prefer, 'cache-control': isFresh ? 'no-cache' : undefined });
    const path = hasNews ? `${form.path}${NEWS}` : form.path;
    const response = await this.request({ path, headers, waitMs }, signal);
    if (response === undefined) throw badAnswer(this.pace.who, form.path, new Error('there is none'));
    if (response.statusCode === 304) return void response.resume();
    return { document: await this.readJson(response, form, signal), etag: response.headers.etag };
  }

  /** Cleans the text of another process, for all callers. */
  private async readJson<T>(response: IncomingMessage, form: DocumentForm<T>, signal: AbortSignal): Promise<T> {
    const bytes = await this.readBody(response, form.path, form.maxBytes, signal);
    try {
      return v.parse(form.schema, plainDocument(JSON.parse(bytes.toString('utf8'))));
    } catch (error) {
      throw badAnswer(this.pace.who, form.path, error);
    }
  }

  /**
   * Closes the connection when the body is too large or too slow.
   *
   * @param what for messages
   * @throws AppError `offers/answer` (`reject`) when it is larger than `maxBytes`;
   *   `offers/unreachable` (`retry`) when it breaks off or is late; whatever aborted `signal`
   */
  private async readBody(
    response: IncomingMessage,
    what: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer> {
    const { who } = this.pace;
    const tooLarge = () =>
      offersError('offers/answer', `${who} sends ${what} with more than ${maxBytes} bytes, which is not read`);
    if (Number(response.headers['content-length'] ?? 0) > maxBytes) {
      response.destroy();
      throw tooLarge();
    }
    const tooSlow = `${what} was not there within ${wireLimits.documentMs / 1_000} s`;
    const timer = setTimeout(() => response.destroy(new Error(tooSlow)), wireLimits.documentMs);
    try {
      return await wholeBody(streamBody(response, this.pace, signal), maxBytes, tooLarge);
    } finally {
      clearTimeout(timer);
    }
  }
}

type BodyPace = Pick<WireConnection, 'who' | 'stallMs' | 'progressMs'>;

/**
 * Chunks at the consumer's pace. A consumer that stops early closes the connection.
 *
 * @throws AppError `offers/unreachable` (`retry`) when it breaks off, or brings nothing for
 *   `stallMs`, or less than `progressBytes` in `progressMs`, while the consumer waits; whatever
 *   aborted `signal`
 */
export async function* streamBody(
  response: IncomingMessage,
  { who, stallMs, progressMs }: BodyPace,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const chunks = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const progress = { waitedMs: 0, bytes: 0 };
  const stalled = () =>
    response.destroy(new Error(`it sent nothing for ${stallMs / 1_000} s in the middle of an answer`));
  try {
    for (;;) {
      const timer = setTimeout(stalled, stallMs);
      const beganMs = performance.now();
      const next = await chunks.next().finally(() => clearTimeout(timer));
      if (next.done === true) break;
      progress.bytes += next.value.length;
      progress.waitedMs += performance.now() - beganMs;
      if (progress.waitedMs >= progressMs) checkProgress(progress);
      yield next.value;
    }
    if (!response.complete) throw new Error('the answer broke off');
  } catch (error) {
    signal.throwIfAborted();
    throw connectionError(who, error);
  } finally {
    if (!response.complete) response.destroy();
  }
}

/** Bytes during waits only: a consumer's pause is not the other end's fault. */
function checkProgress(progress: { waitedMs: number; bytes: number }): void {
  const { waitedMs, bytes } = progress;
  if (bytes < wireLimits.progressBytes) {
    throw new Error(`it sent only ${bytes} bytes in ${Math.round(waitedMs / 1_000)} s`);
  }
  Object.assign(progress, { waitedMs: 0, bytes: 0 });
}

/** Closed by the other end, as by a server that can't continue a body. */
export function wasCut(error: unknown): boolean {
  return error instanceof AppError && error.code === 'offers/unreachable' && systemCodeOf(error.cause) === 'ECONNRESET';
}

/** Returns one short line. */
function reasonIn(body: string): string {
  try {
    const { error } = v.parse(v.object({ error: v.string() }), JSON.parse(body));
    return `: ${clip(oneLine(error), 200)}`;
  } catch {
    return '';
  }
}

function absent(who: string, digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `${who} does not offer ${digest} any more`,
    disposition: 'wait',
  });
}

function badAnswer(who: string, what: string, why: unknown): AppError<OffersErrorCode> {
  return offersError('offers/answer', `${who} sends ${what} that can't be used: ${reasonOf(why)}`, why);
}
