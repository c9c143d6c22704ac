import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, rename, rm, rmdir } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError, assertNever, reasonOf } from '../../platform/app-error.ts';
import { Wake } from '../../platform/async/wake.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import {
  closeSignal,
  entityTagOf,
  isUnmodified,
  parseRange,
  rangeInForce,
  respondJson,
  sendContentHead,
  shortBlob,
  writeFlushed,
} from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import { createBufferSweep } from '../../platform/sweep-buffers.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { streamBody, wasCut } from './client.ts';
import type { WireConnection } from './connection.ts';
import {
  busyOf,
  type OfferedFile,
  type OffersDocument,
  type OffersErrorCode,
  offersError,
  parseWirePath,
  respondBusy,
  WIRE_SERVER_OPTIONS,
  type WireRoute,
  wireLimits,
} from './documents.ts';

/**
 * Never rejects: a failure is answered, or closes the connection.
 *
 * @param target the path. Default: that of the request
 */
export type OffersHandler = (request: IncomingMessage, response: ServerResponse, target?: string) => Promise<void>;

/** Only GET and HEAD are answered. */
export function createOffersHandler(bundles: OfferedBundles, clock: Clock, log: Log): OffersHandler {
  const document: WatchedDocument = {
    current: async (signal): Promise<OffersDocument> => ({ version: 1, ...(await bundles.offers(signal)) }),
    onChange: (listener) => bundles.onChange(listener),
  };
  const answer = async (request: IncomingMessage, response: ServerResponse, route: WireRoute): Promise<void> => {
    switch (route.kind) {
      case 'offers':
        return sendWatched(request, response, { clock, document });
      case 'blobs':
        return sendBlobList(request, response, await bundles.blobs(route.bundleId, closeSignal(response)));
      case 'file':
        return sendFile(request, response, await bundles.file(route.bundleId, route.name, closeSignal(response)));
      case 'blob':
        return sendOfferedBlob(request, response, { digest: route.digest, source: bundles });
      case 'unknown':
        return respondAbsent(response);
      default:
        return assertNever(route);
    }
  };
  return (request, response, target = request.url ?? '') =>
    answerSafely(request, response, log, () => answer(request, response, parseWirePath(target)));
}

/**
 * Answers errors of a GET or HEAD request: `offers/busy` as 503, `media/gone` as 404, a failed
 * connection to the server behind as 502 (RFC 9110, section 15.6.3), others as 500. After the head
 * it closes the connection instead. Never rejects.
 */
export async function answerSafely(
  request: IncomingMessage,
  response: ServerResponse,
  log: Log,
  work: () => Promise<void>,
): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return respondJson(response, 405, { error: 'only GET and HEAD are answered' }, { allow: 'GET, HEAD' });
  }
  try {
    await work();
  } catch (error) {
    if (response.destroyed) return;
    if (response.headersSent) {
      log.debug({ err: error, path: request.url }, 'Offers: an answer broke off');
      return void response.destroy();
    }
    answerError(response, error, log);
  }
}

function answerError(response: ServerResponse, error: unknown, log: Log): void {
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  const busy = busyOf(error);
  if (busy !== undefined) return void respondBusy(response, busy);
  if (error instanceof AppError && error.code === 'media/gone') return void respondAbsent(response);
  log.debug({ err: error }, `Offers: a request failed: ${reasonOf(error)}`);
  const status = error instanceof AppError && BEHIND.has(error.code) ? 502 : 500;
  respondJson(response, status, { error: reasonOf(error).slice(0, 300) });
}

/** Errors of the connection to the server behind a relay. */
const BEHIND: ReadonlySet<string> = new Set<OffersErrorCode>(['offers/unreachable', 'offers/answer']);

function respondAbsent(response: ServerResponse): void {
  respondJson(response, 404, { error: 'this is not offered here' });
}

async function sendBlobList(
  request: IncomingMessage,
  response: ServerResponse,
  blobs: ReadonlyMap<Digest, number> | undefined,
): Promise<void> {
  if (blobs === undefined) return respondAbsent(response);
  const body = JSON.stringify({ version: 1, blobs: Object.fromEntries(blobs) });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? undefined : body);
}

async function sendFile(request: IncomingMessage, response: ServerResponse, bytes: Buffer | undefined): Promise<void> {
  if (bytes === undefined) return respondAbsent(response);
  // The signatures of an envelope may change while the bundle stays the same.
  const body = sendContentHead(request, response, { version: digestOf(bytes), sizeBytes: bytes.length });
  if (body !== undefined) response.end(bytes.subarray(body.firstByte, body.lastByte + 1));
}

/** All requests of this process share it. */
const sweep = createBufferSweep();

const PASSED = ['range', 'if-range', 'if-none-match', 'prefer'] as const;
const ANSWERED = ['content-type', 'content-length', 'content-range', 'accept-ranges', 'etag', 'retry-after'] as const;

/**
 * Passes a request of the wire form on, and its answer back, at the pace of the slower end. Only
 * headers of the wire form pass.
 *
 * @param path at the other server
 * @param onBytes for each part of the body, before it is sent on; may wait
 * @throws as {@link WireConnection.open}, before the head is sent; after it, as `streamBody`. Then
 *   `response` is cut too, which need not be a fault of the other server: the client gets the
 *   reason with its request for the rest
 */
export async function relay(
  request: IncomingMessage,
  response: ServerResponse,
  to: { readonly connection: WireConnection; readonly path: string },
  onBytes?: (count: number) => void | Promise<void>,
): Promise<void> {
  const signal = closeSignal(response);
  const headers = Object.fromEntries(
    PASSED.flatMap((name) => (name in request.headers ? [[name, request.headers[name]]] : [])),
  );
  const method = request.method === 'HEAD' ? 'HEAD' : 'GET';
  const waitMs = 'prefer' in headers ? wireLimits.longestWaitMs : 0;
  const answer = await to.connection.open({ path: to.path, method, headers, waitMs }, signal);
  try {
    const passed = ANSWERED.flatMap((name) =>
      answer.headers[name] === undefined ? [] : [[name, answer.headers[name]]],
    );
    response.writeHead(answer.statusCode ?? 502, Object.fromEntries(passed));
    response.setTimeout(wireLimits.clientStallMs, () => response.destroy());
    for await (const chunk of streamBody(answer, to.connection, signal)) {
      sweep(chunk.length);
      await onBytes?.(chunk.length);
      await writeFlushed(response, chunk, signal);
    }
    response.end();
  } catch (error) {
    if (wasCut(error)) response.destroy();
    throw error;
  } finally {
    if (!answer.complete) answer.destroy();
  }
}

/**
 * Sends a blob or its `Range`. The first bytes are read before the head: an unreadable blob is an
 * error, not a broken connection.
 *
 * @throws errors of the source; `media/read` (`retry`) for a blob that is shorter than its size
 */
async function sendOfferedBlob(
  request: IncomingMessage,
  response: ServerResponse,
  { digest, source }: { readonly digest: Digest; readonly source: BlobSource },
): Promise<void> {
  const signal = closeSignal(response);
  const sizeBytes = await source.sizeOf(digest, signal);
  if (sizeBytes === undefined) return respondJson(response, 404, { error: `blob ${digest} is not offered here` });
  const begin = firstByteOf(request, digest, sizeBytes);
  const chunks = begin === undefined ? undefined : source.read(digest, begin, signal, oneBuffer());
  const reading = chunks?.[Symbol.asyncIterator]();
  try {
    const first = await reading?.next();
    const body = sendContentHead(request, response, { version: digest, sizeBytes });
    if (body === undefined) return;
    // A client that reads nothing must not keep its turn.
    response.setTimeout(wireLimits.clientStallMs, () => response.destroy());
    let position = body.firstByte;
    for (let next = first; next !== undefined && next.done !== true; next = await reading?.next()) {
      const wanted = next.value.subarray(0, body.lastByte - position + 1);
      await writeFlushed(response, wanted, signal);
      position += wanted.length;
      if (position > body.lastByte) break;
    }
    if (position <= body.lastByte) throw shortBlob(digest, position);
    response.end();
  } finally {
    await reading?.return?.();
  }
}

/** Undefined when the answer has no body. */
function firstByteOf(request: IncomingMessage, digest: Digest, sizeBytes: number): number | undefined {
  if (request.method === 'HEAD' || sizeBytes === 0 || isUnmodified(request.headers, digest)) return undefined;
  const range = parseRange(rangeInForce(request.headers, digest), sizeBytes);
  if (range.kind === 'unsatisfiable') return undefined;
  return range.kind === 'part' ? range.first : 0;
}

export interface SocketServer {
  /** Drops every connection and removes the socket. */
  close(): Promise<void>;
}

/**
 * HTTP on a Unix socket, by default for its owner only. The socket of an earlier run is replaced.
 *
 * @param path at most 101 bytes, since six more are needed for a moment (unix(7))
 * @throws AppError `offers/listen` (`retry`)
 */
export async function serveSocket(
  path: string,
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  mode = 0o600,
): Promise<SocketServer> {
  const server = createServer(WIRE_SERVER_OPTIONS, (request, response) => void handle(request, response));
  const folder = `${path}.new`;
  try {
    // Nobody else can enter the folder or connect before the mode is set.
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const listening = once(server, 'listening');
    server.listen(join(folder, 's'));
    await listening;
    await chmod(join(folder, 's'), mode);
    await rename(join(folder, 's'), path);
    await rmdir(folder);
  } catch (cause) {
    server.close();
    const message = `${path} can't be served: ${reasonOf(cause)}; other nodes get nothing from this one`;
    throw offersError('offers/listen', message, cause);
  }
  return {
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
      await rm(path, { force: true });
    },
  };
}

export interface WatchedDocument {
  current(signal: AbortSignal): Promise<object>;
  /** Called when it may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/**
 * Answers with a document and its `ETag`. With `If-None-Match` and `Prefer: wait=<seconds>` (RFC
 * 7240, section 4.3) the answer waits for a change, or is 304 after that time, at most {@link
 * wireLimits.longestWaitMs}.
 *
 * @throws whatever `current` throws; an abort when the client is gone
 */
export async function sendWatched(
  request: IncomingMessage,
  response: ServerResponse,
  options: {
    readonly document: WatchedDocument;
    readonly clock: Clock;
    /** Before the answer is sent. */
    readonly onBytes?: (count: number) => Promise<void>;
  },
): Promise<void> {
  const { document, clock, onBytes } = options;
  const signal = closeSignal(response);
  const untilMs = clock.monotonic() + waitMs(request.headers);
  const wake = new Wake(clock);
  const unsubscribe = document.onChange(() => wake.kick());
  try {
    for (;;) {
      const body = JSON.stringify(await document.current(signal));
      const version = createHash('sha256').update(body).digest('base64url');
      if (!isUnmodified(request.headers, version)) {
        await onBytes?.(Buffer.byteLength(body));
        return sendDocument(request, response, body, version);
      }
      const leftMs = untilMs - clock.monotonic();
      if (leftMs <= 0) return void response.writeHead(304, { etag: entityTagOf(version) }).end();
      await wake.wait(leftMs, signal);
      signal.throwIfAborted();
    }
  } finally {
    unsubscribe();
  }
}

function sendDocument(request: IncomingMessage, response: ServerResponse, body: string, version: string): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-cache',
    etag: entityTagOf(version),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** In milliseconds; 0 without `If-None-Match`. */
function waitMs({ prefer, 'if-none-match': known }: IncomingHttpHeaders): number {
  if (known === undefined || prefer === undefined) return 0;
  const text = Array.isArray(prefer) ? prefer.join(',') : prefer;
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:$|[,;])/i.exec(text) ?? [];
  return Math.min(wireLimits.longestWaitMs, Number(seconds ?? 0) * 1_000);
}

/**
 * What the wire form carries: bundles that one node gives to another. The daemon has one over its
 * media and disk.
 *
 * Every method may throw `offers/busy` (`wait`), see `busyError`, and what {@link BlobSource}
 * throws.
 */
export interface OfferedBundles extends BlobSource {
  offers(signal: AbortSignal): Promise<Pick<OffersDocument, 'bundles' | 'node'>>;
  /** Its bytes on the medium; undefined when it is not offered. */
  file(bundleId: BundleId, name: OfferedFile, signal: AbortSignal): Promise<Buffer | undefined>;
  /** Sizes in bytes; undefined when it is not offered. */
  blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined>;
  /** Called when the answer of {@link OfferedBundles.offers} may have changed. */
  onChange(listener: () => void): Unsubscribe;
}
