import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError, assertNever, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { oneBuffer } from '../../platform/files/file-access.ts';
import {
  closeSignal,
  isUnmodified,
  parseRange,
  rangeInForce,
  respondJson,
  sendContentHead,
  writeFlushed,
} from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import { createBufferSweep } from '../../platform/sweep-buffers.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { busyOf, type OffersErrorCode, respondBusy } from '../busy.ts';
import { streamBody, wasCut } from '../client/client.ts';
import { sendWatched } from '../client/fleet-watch.ts';
import type { WireConnection } from '../client/wire-connection.ts';
import { type OffersDocument, parseWirePath, type WireRoute, wireLimits } from '../documents.ts';
import type { ChangingOffers } from '../kept-bundles.ts';

interface OffersHandlerOptions {
  readonly bundles: ChangingOffers;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Never rejects: a failure is answered, or closes the connection.
 *
 * @param target the path. Default: that of the request
 */
export type OffersHandler = (request: IncomingMessage, response: ServerResponse, target?: string) => Promise<void>;

/** Only GET and HEAD are answered. */
export function createOffersHandler(options: OffersHandlerOptions): OffersHandler {
  return (request, response, target = request.url ?? '') =>
    answerSafely(request, response, options.log, () => answer({ request, response }, parseWirePath(target), options));
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
    respondJson(response, 405, { error: 'only GET and HEAD are answered' }, { allow: 'GET, HEAD' });
    return;
  }
  try {
    await work();
  } catch (error) {
    if (response.destroyed) return;
    if (response.headersSent) {
      log.debug({ err: error, path: request.url }, 'Offers: an answer broke off');
      response.destroy();
      return;
    }
    answerError(response, error, log);
  }
}

function answerError(response: ServerResponse, error: unknown, log: Log): void {
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  const busy = busyOf(error);
  if (busy !== undefined) {
    respondBusy(response, busy);
    return;
  }
  if (error instanceof AppError && error.code === 'media/gone') {
    respondAbsent(response);
    return;
  }
  log.debug({ err: error }, `Offers: a request failed: ${reasonOf(error)}`);
  const status = error instanceof AppError && BEHIND.has(error.code) ? 502 : 500;
  respondJson(response, status, { error: reasonOf(error).slice(0, 300) });
}

/** Errors of the connection to the server behind a relay. */
const BEHIND: ReadonlySet<string> = new Set<OffersErrorCode>(['offers/unreachable', 'offers/answer']);

function respondAbsent(response: ServerResponse): void {
  respondJson(response, 404, { error: 'this is not offered here' });
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function answer(exchange: Exchange, route: WireRoute, options: OffersHandlerOptions): Promise<void> {
  const { request, response } = exchange;
  const { bundles, clock } = options;
  switch (route.kind) {
    case 'offers':
      return sendWatched(request, response, {
        clock,
        document: {
          current: async (signal): Promise<OffersDocument> => ({ version: 1, ...(await bundles.offers(signal)) }),
          onChange: bundles.onChange,
        },
      });
    case 'blobs':
      return sendBlobList(exchange, route, options);
    case 'file':
      return sendFile(exchange, route, options);
    case 'blob':
      return sendOfferedBlob(request, response, { digest: route.digest, source: bundles });
    case 'unknown':
      return respondAbsent(response);
    default:
      return assertNever(route);
  }
}

async function sendBlobList(
  { request, response }: Exchange,
  { bundleId }: Extract<WireRoute, { kind: 'blobs' }>,
  { bundles }: OffersHandlerOptions,
): Promise<void> {
  const blobs = await bundles.blobs(bundleId, closeSignal(response));
  if (blobs === undefined) return respondAbsent(response);
  const body = JSON.stringify({ version: 1, blobs: Object.fromEntries(blobs) });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? undefined : body);
}

async function sendFile(
  { request, response }: Exchange,
  { bundleId, name }: Extract<WireRoute, { kind: 'file' }>,
  { bundles }: OffersHandlerOptions,
): Promise<void> {
  const bytes = await bundles.file(bundleId, name, closeSignal(response));
  if (bytes === undefined) return respondAbsent(response);
  // The signatures of an envelope may change while the bundle stays the same.
  const body = sendContentHead(request, response, { version: digestOf(bytes), sizeBytes: bytes.length });
  if (body !== undefined) response.end(bytes.subarray(body.firstByte, body.lastByte + 1));
}

interface RelayOptions {
  readonly onHead?: (answer: IncomingMessage) => void;
  /** For each part of the body, before it is sent on. May wait. */
  readonly onBytes?: (count: number) => void | Promise<void>;
}

/** For all requests of this process. */
const sweep = createBufferSweep();

const PASSED = ['range', 'if-range', 'if-none-match', 'prefer'] as const;
const ANSWERED = ['content-type', 'content-length', 'content-range', 'accept-ranges', 'etag', 'retry-after'] as const;

/**
 * Passes a request of the wire form on, and its answer back, at the pace of the slower end. Only
 * headers of the wire form pass.
 *
 * @param path at the other server
 * @throws as {@link WireConnection.open}, before the head is sent; after it, as `streamBody`. Then
 *   `response` is cut too, which need not be a fault of the other server: the client gets the
 *   reason with its request for the rest
 */
export async function relay(
  request: IncomingMessage,
  response: ServerResponse,
  to: { readonly connection: WireConnection; readonly path: string },
  { onHead, onBytes }: RelayOptions = {},
): Promise<void> {
  const signal = closeSignal(response);
  const headers = Object.fromEntries(
    PASSED.flatMap((name) => (name in request.headers ? [[name, request.headers[name]]] : [])),
  );
  const method = request.method === 'HEAD' ? 'HEAD' : 'GET';
  const waitMs = 'prefer' in headers ? wireLimits.longestWaitMs : 0;
  const answer = await to.connection.open({ path: to.path, method, headers, waitMs }, signal);
  try {
    onHead?.(answer);
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
  const begin = firstByteOf(request, { digest, sizeBytes });
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
function firstByteOf(
  request: IncomingMessage,
  { digest, sizeBytes }: { readonly digest: Digest; readonly sizeBytes: number },
): number | undefined {
  if (request.method === 'HEAD' || sizeBytes === 0 || isUnmodified(request.headers, digest)) return undefined;
  const range = parseRange(rangeInForce(request.headers, digest), sizeBytes);
  if (range.kind === 'unsatisfiable') return undefined;
  return range.kind === 'part' ? range.first : 0;
}

function shortBlob(digest: Digest, position: number): AppError {
  return new AppError({
    code: 'media/read',
    message: `${digest} ended after ${position} bytes, before its full size`,
    disposition: 'retry',
  });
}
