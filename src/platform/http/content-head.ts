import type { IncomingMessage, ServerResponse } from 'node:http';
import { entityTagOf, isUnmodified, rangeInForce } from './preconditions.ts';
import { parseRange } from './range.ts';

/** Content that never changes under its version. */
export interface FixedContent {
  /** Its digest: the entity tag without quotes. */
  readonly version: string;
  readonly sizeBytes: number;
}

/** The bytes of the body. */
export interface BodyRange {
  readonly firstByte: number;
  /** Below `firstByte` for an empty body. */
  readonly lastByte: number;
}

/**
 * Sends the head of the answer to a request for bytes: 200, 206, 304 or 416 (RFC 9110).
 *
 * @returns what the body must have. Undefined when the answer is complete: there is no body to
 *   send
 */
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
