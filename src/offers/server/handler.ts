import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError, assertNever, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import { closeSignal } from '../../platform/http/close-signal.ts';
import { sendContentHead } from '../../platform/http/content-head.ts';
import { respondJson } from '../../platform/http/respond-json.ts';
import type { Log } from '../../platform/log.ts';
import { busyOf, type OffersErrorCode, respondBusy } from '../busy.ts';
import type { OffersDocument } from '../documents.ts';
import type { ChangingOffers } from '../offered-bundles.ts';
import { parseWirePath, type WireRoute } from '../paths.ts';
import { sendWatched } from '../watched-document.ts';
import { sendOfferedBlob } from './send-offered-blob.ts';

/** The adapters of {@link createOffersHandler}. */
export interface OffersHandlerOptions {
  readonly bundles: ChangingOffers;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Answers one request of the wire form. Never rejects: what fails is answered, or closes the
 * connection.
 *
 * @param target the path to answer. Default: that of the request
 */
export type OffersHandler = (request: IncomingMessage, response: ServerResponse, target?: string) => Promise<void>;

/** Answers the wire form over some bundles. Only GET and HEAD are answered. */
export function createOffersHandler(options: OffersHandlerOptions): OffersHandler {
  return (request, response, target = request.url ?? '') =>
    answerSafely(request, response, options.log, () => answer({ request, response }, parseWirePath(target), options));
}

/**
 * Runs `work` for a GET or HEAD request, and answers what it throws: `offers/busy` as 503,
 * `media/gone` as 404, a failed connection to the server behind this one as 502 (RFC 9110, section
 * 15.6.3), the rest as 500. Once the head is sent, the connection is closed instead. Never rejects.
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

/** Errors of a connection to the server that a relay asks, not of what was asked for. */
const BEHIND: ReadonlySet<string> = new Set<OffersErrorCode>(['offers/unreachable', 'offers/answer']);

/** Answers 404 with a short body. */
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
  // The signatures in an envelope may change while the bundle stays the same.
  const body = sendContentHead(request, response, { version: digestOf(bytes), sizeBytes: bytes.length });
  if (body !== undefined) response.end(bytes.subarray(body.firstByte, body.lastByte + 1));
}
