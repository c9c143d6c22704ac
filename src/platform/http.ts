import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from './app-error.ts';
import { untilAborted } from './async/abort.ts';

/** Shared: every response ends with an abort, and each new error would record a stack. */
export const CLOSED = new Error('the connection of the client is closed');

/** Aborts when the connection closes, or at once when it is closed. */
export function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // The client may close the connection before there is a listener.
  if (response.destroyed) controller.abort(CLOSED);
  else response.once('close', () => controller.abort(CLOSED));
  return controller.signal;
}

interface FixedContent {
  /** Its digest: the entity tag without quotes. */
  readonly version: string;
  readonly sizeBytes: number;
}

interface BodyRange {
  readonly firstByte: number;
  /** Below `firstByte` for an empty body. */
  readonly lastByte: number;
}

/** 200, 206, 304 or 416 (RFC 9110). Returns the part of the body to send, if any. */
export function sendContentHead(
  request: IncomingMessage,
  response: ServerResponse,
  { version, sizeBytes }: FixedContent,
): BodyRange | undefined {
  response.setHeader('etag', entityTagOf(version));
  if (isUnmodified(request.headers, version)) return void response.writeHead(304).end();
  // RFC 9110, section 14.2: a Range counts for GET only.
  const header = request.method === 'GET' ? rangeInForce(request.headers, version) : undefined;
  const range = parseRange(header, sizeBytes);
  response.setHeader('accept-ranges', 'bytes');
  if (range.kind === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${sizeBytes}`, 'content-length': 0 }).end();
    return undefined;
  }
  const firstByte = range.kind === 'part' ? range.first : 0;
  const lastByte = range.kind === 'part' ? range.last : sizeBytes - 1;
  if (range.kind === 'part') response.setHeader('content-range', `bytes ${firstByte}-${lastByte}/${sizeBytes}`);
  response.writeHead(range.kind === 'part' ? 206 : 200, {
    'content-type': 'application/octet-stream',
    'content-length': lastByte - firstByte + 1,
  });
  if (request.method === 'HEAD') return void response.end();
  return { firstByte, lastByte };
}

/** Its source ended too early. */
export function shortBlob(digest: string, position: number): AppError {
  const message = `${digest} ended after ${position} bytes, before its full size`;
  return new AppError({ code: 'media/read', message, disposition: 'retry' });
}

/** A quoted tag (RFC 9110, section 8.8.3). Content by digest never changes, so it is strong. */
export function entityTagOf(version: string): string {
  return `"${version}"`;
}

/** RFC 9110, section 13.1.2; weak comparison. */
export function isUnmodified({ 'if-none-match': header }: IncomingHttpHeaders, version: string): boolean {
  if (header === undefined) return false;
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(entityTagOf(version));
}

/** RFC 9110, section 13.1.5; strong comparison of `If-Range`. A date never matches. */
export function rangeInForce(headers: IncomingHttpHeaders, version: string): string | undefined {
  const validator = headers['if-range'];
  const matches = validator === undefined || String(validator).trim() === entityTagOf(version);
  return matches ? headers.range : undefined;
}

/** RFC 9110, section 12.5.1. Only `q=0` counts, because each manifest has one form. */
export function isAccepted({ accept }: IncomingHttpHeaders, mediaType: string): boolean {
  if (accept === undefined || accept.trim() === '') return true;
  const [type] = mediaType.split('/');
  return accept.split(',').some((item) => {
    const [range = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    if (parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))) return false;
    return range === '*/*' || range === `${type}/*` || range === mediaType.toLowerCase();
  });
}

type RangeRequest =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly first: number; readonly last: number }
  | { readonly kind: 'unsatisfiable' };

/** Range units are case-insensitive (RFC 9110, section 14.1). */
const SINGLE_RANGE = /^bytes=(\d*)-(\d*)$/i;

/** RFC 9110, section 14. Several ranges and unknown forms are ignored: the whole blob is sent. */
export function parseRange(header: string | undefined, sizeBytes: number): RangeRequest {
  const match = header === undefined ? null : SINGLE_RANGE.exec(header.replaceAll(' ', ''));
  if (match === null) return { kind: 'whole' };
  const [, from = '', to = ''] = match;
  if (from === '' && to === '') return { kind: 'whole' };
  if (from === '') {
    const suffix = Number(to);
    if (suffix === 0 || sizeBytes === 0) return { kind: 'unsatisfiable' };
    return { kind: 'part', first: Math.max(0, sizeBytes - suffix), last: sizeBytes - 1 };
  }
  const first = Number(from);
  const last = to === '' ? sizeBytes - 1 : Math.min(Number(to), sizeBytes - 1);
  if (to !== '' && Number(to) < first) return { kind: 'whole' };
  return first >= sizeBytes ? { kind: 'unsatisfiable' } : { kind: 'part', first, last };
}

/** The default type is `application/json`. */
export function respondJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}

/** The kernel has the chunk then, so its buffer is free. @throws {@link CLOSED}; an abort */
export async function writeFlushed(response: ServerResponse, chunk: Buffer, signal: AbortSignal): Promise<void> {
  const written = new Promise<void>((resolve, reject) => {
    response.write(chunk, (error) => (error ? reject(CLOSED) : resolve()));
  });
  await untilAborted(written, signal);
}
