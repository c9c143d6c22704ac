import type { IncomingMessage } from 'node:http';
import * as v from 'valibot';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { entityTagOf } from '../../platform/http.ts';
import { clip, oneLine, plainDocument } from '../../platform/plain-text.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { busyError, type OffersErrorCode, parseBusy } from '../busy.ts';
import {
  blobsSchema,
  type FleetDocument,
  fleetSchema,
  type OfferedFile,
  type OffersDocument,
  offersSchema,
  wireLimits,
  wirePaths,
} from '../documents.ts';
import { connectionError, type WireConnection } from './wire-connection.ts';

/** `etag` is for the next request. */
interface Watched<T> {
  readonly document: T;
  readonly etag: string | undefined;
}

interface WatchOptions {
  /** The known version; the answer is undefined while it is current. */
  readonly etag?: string | undefined;
  /** Long poll in milliseconds. Default 0. */
  readonly waitMs?: number;
}

/**
 * Methods throw AppError `offers/busy` (`wait`), `offers/failed` and `offers/unreachable`
 * (`retry`), `offers/answer` (`reject`), or whatever aborted the signal.
 */
export interface OffersClient extends BlobSource {
  /** Undefined when it has not changed. */
  offers(watch: WatchOptions, signal: AbortSignal): Promise<Watched<OffersDocument> | undefined>;
  /** Undefined when it is not offered. @param maxBytes default: as on a stick */
  file(bundleId: BundleId, name: OfferedFile, signal: AbortSignal, maxBytes?: number): Promise<Buffer | undefined>;
  /** Undefined when the bundle is not offered. */
  blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined>;
  /** Requests the first byte of a blob, to test whether it is given now. */
  ask(digest: Digest, signal: AbortSignal): Promise<void>;
  /** On `peers.sock` only. Undefined when it has not changed. */
  fleet(watch: WatchOptions, signal: AbortSignal): Promise<Watched<FleetDocument> | undefined>;
}

/** @param prefix before each path; default nothing */
export function createOffersClient(connection: WireConnection, prefix = ''): OffersClient {
  const wire: Wire = { connection, prefix };
  return {
    offers: (watch, signal) =>
      watched(wire, { path: wirePaths.offers, schema: offersSchema, maxBytes: wireLimits.offersBytes }, watch, signal),
    fleet: (watch, signal) =>
      watched(wire, { path: wirePaths.fleet, schema: fleetSchema, maxBytes: wireLimits.fleetBytes }, watch, signal),
    file: async (bundleId, name, signal, maxBytes = wireLimits.fileBytes[name]) => {
      const response = await request(wire, { path: wirePaths.file(bundleId, name) }, signal);
      return response && readBody(response, { from: connection, what: name, maxBytes }, signal);
    },
    blobs: (bundleId, signal) => blobList(wire, bundleId, signal),
    ask: (digest, signal) => requestFirstByte(wire, digest, signal),
    sizeOf: (digest, signal) => sizeOf(wire, digest, signal),
    read: (digest, startByte, signal) => read(wire, digest, startByte, signal),
  };
}

interface Wire {
  readonly connection: WireConnection;
  readonly prefix: string;
}

interface DocumentRequest {
  readonly path: string;
  readonly method?: 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
  readonly waitMs?: number;
}

/** Status 200, 206 or 304; undefined for 404. Other bodies are dropped. */
async function request(
  { connection, prefix }: Wire,
  requested: DocumentRequest,
  signal: AbortSignal,
): Promise<IncomingMessage | undefined> {
  const { who } = connection;
  const response = await connection.open({ ...requested, path: `${prefix}${requested.path}` }, signal);
  const { statusCode: status = 0 } = response;
  if ([200, 206, 304].includes(status)) return response;
  const limits = { from: connection, what: 'an error', maxBytes: wireLimits.errorBytes };
  const body = (await readBody(response, limits, signal)).toString('utf8');
  if (status === 404) return undefined;
  if (status === 503) throw busyError(who, parseBusy(response.headers['retry-after'], body));
  const isFailed = status === 500;
  throw new AppError<OffersErrorCode>({
    code: isFailed ? 'offers/failed' : 'offers/unreachable',
    message: isFailed
      ? `${who} can't give ${requested.path}${reasonIn(body)}`
      : `${who} answers ${requested.path} with status ${status}${reasonIn(body)}`,
    disposition: 'retry',
  });
}

/** In one short line. */
function reasonIn(body: string): string {
  try {
    const { error } = v.parse(v.object({ error: v.string() }), JSON.parse(body));
    return `: ${clip(oneLine(error), 200)}`;
  } catch {
    return '';
  }
}

interface DocumentQuery<T> {
  readonly path: string;
  readonly schema: v.GenericSchema<unknown, T>;
  readonly maxBytes: number;
}

async function watched<T>(
  wire: Wire,
  { path, schema, maxBytes }: DocumentQuery<T>,
  { etag, waitMs = 0 }: WatchOptions,
  signal: AbortSignal,
): Promise<Watched<T> | undefined> {
  const wait = etag !== undefined && waitMs > 0 ? { prefer: `wait=${Math.ceil(waitMs / 1_000)}` } : {};
  const headers = { ...(etag !== undefined && { 'if-none-match': etag }), ...wait };
  const response = await request(wire, { path, headers, waitMs }, signal);
  const { connection } = wire;
  if (response === undefined) throw badAnswer(connection.who, path, new Error('there is none'));
  if (response.statusCode === 304) return void response.resume();
  const document = await readJson(response, { from: connection, what: path, maxBytes }, schema, signal);
  return { document, etag: response.headers.etag };
}

/** Cleans the text of another process, for all callers. */
async function readJson<T>(
  response: IncomingMessage,
  limits: BodyLimits,
  schema: v.GenericSchema<unknown, T>,
  signal: AbortSignal,
): Promise<T> {
  const bytes = await readBody(response, limits, signal);
  try {
    return v.parse(schema, plainDocument(JSON.parse(bytes.toString('utf8'))));
  } catch (error) {
    throw badAnswer(limits.from.who, limits.what, error);
  }
}

async function blobList(wire: Wire, bundleId: BundleId, signal: AbortSignal) {
  const path = wirePaths.blobs(bundleId);
  const response = await request(wire, { path }, signal);
  if (response === undefined) return undefined;
  const limits = { from: wire.connection, what: 'blobs.json', maxBytes: wireLimits.blobsBytes };
  const { blobs } = await readJson(response, limits, blobsSchema, signal);
  return new Map(Object.entries(blobs) as [Digest, number][]);
}

async function sizeOf(wire: Wire, digest: Digest, signal: AbortSignal): Promise<number | undefined> {
  const response = await request(wire, { path: wirePaths.blob(digest), method: 'HEAD' }, signal);
  if (response === undefined) return undefined;
  response.resume();
  const length = response.headers['content-length'];
  if (length !== undefined && /^\d{1,15}$/.test(length)) return Number(length);
  throw badAnswer(wire.connection.who, digest, new Error('its size is not told'));
}

async function requestFirstByte(wire: Wire, digest: Digest, signal: AbortSignal): Promise<void> {
  const headers = { range: 'bytes=0-0' };
  const response = await request(wire, { path: wirePaths.blob(digest), headers }, signal);
  if (response === undefined) return;
  await readBody(response, { from: wire.connection, what: digest, maxBytes: 1 }, signal).catch(() => undefined);
}

async function* read(
  wire: Wire,
  digest: Digest,
  startByte: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const { who } = wire.connection;
  const headers = startByte > 0 ? { range: `bytes=${startByte}-`, 'if-range': entityTagOf(digest) } : {};
  const response = await request(wire, { path: wirePaths.blob(digest), headers }, signal);
  if (response === undefined) throw absent(who, digest);
  try {
    if (startByte > 0 && !response.headers['content-range']?.startsWith(`bytes ${startByte}-`)) {
      throw badAnswer(who, digest, new Error(`bytes from ${startByte} were asked for, and others came`));
    }
    yield* streamBody(response, wire.connection, signal);
  } finally {
    if (!response.complete) response.destroy();
  }
}

function absent(who: string, digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `${who} does not offer ${digest} any more`,
    disposition: 'wait',
  });
}

type BodyPace = Pick<WireConnection, 'who' | 'stallMs' | 'progressMs'>;

interface BodyLimits {
  readonly from: BodyPace;
  /** For messages. */
  readonly what: string;
  readonly maxBytes: number;
}

/**
 * Closes the connection when the body is too large or too slow.
 *
 * @throws AppError `offers/answer` (`reject`) when it is larger than `maxBytes`;
 *   `offers/unreachable` (`retry`) when it breaks off or is late; whatever aborted `signal`
 */
async function readBody(
  response: IncomingMessage,
  { from, what, maxBytes }: BodyLimits,
  signal: AbortSignal,
): Promise<Buffer> {
  const timer = setTimeout(() => response.destroy(new Error(tooSlow(what))), wireLimits.documentMs);
  try {
    if (Number(response.headers['content-length'] ?? 0) > maxBytes) throw tooLarge(from.who, what, maxBytes);
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of streamBody(response, from, signal)) {
      length += chunk.length;
      if (length > maxBytes) throw tooLarge(from.who, what, maxBytes);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    clearTimeout(timer);
    if (!response.complete) response.destroy();
  }
}

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
  const progress = createProgress(progressMs);
  const stalled = () =>
    response.destroy(new Error(`it sent nothing for ${stallMs / 1_000} s in the middle of an answer`));
  try {
    for (;;) {
      const timer = setTimeout(stalled, stallMs);
      const beganMs = performance.now();
      const next = await chunks.next().finally(() => clearTimeout(timer));
      if (next.done === true) break;
      progress.add(next.value.length, performance.now() - beganMs);
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

/** Closed by the other end, as by a server that can't continue a body. */
export function wasCut(error: unknown): boolean {
  return error instanceof AppError && error.code === 'offers/unreachable' && systemCodeOf(error.cause) === 'ECONNRESET';
}

/** Bytes during waits only: a consumer's pause is not the other end's fault. */
function createProgress(progressMs: number) {
  const { progressBytes } = wireLimits;
  let waitedMs = 0;
  let bytes = 0;
  return {
    /** @throws Error for a body that is too slow */
    add: (length: number, ms: number) => {
      bytes += length;
      waitedMs += ms;
      if (waitedMs < progressMs) return;
      if (bytes < progressBytes) throw new Error(`it sent only ${bytes} bytes in ${Math.round(waitedMs / 1_000)} s`);
      waitedMs = 0;
      bytes = 0;
    },
  };
}

function tooSlow(what: string): string {
  return `${what} was not there within ${wireLimits.documentMs / 1_000} s`;
}

function tooLarge(who: string, what: string, maxBytes: number): AppError<OffersErrorCode> {
  return new AppError({
    code: 'offers/answer',
    message: `${who} sends ${what} with more than ${maxBytes} bytes, which is not read`,
    disposition: 'reject',
  });
}

function badAnswer(who: string, what: string, why: unknown): AppError<OffersErrorCode> {
  return new AppError({
    code: 'offers/answer',
    message: `${who} sends ${what} that can't be used: ${reasonOf(why)}`,
    disposition: 'reject',
    cause: why,
  });
}
