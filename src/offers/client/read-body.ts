import type { IncomingMessage } from 'node:http';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { OffersErrorCode } from '../busy.ts';
import { wireLimits } from '../limits.ts';
import { connectionError, type WireConnection } from './wire-connection.ts';

/** How slowly a body may come. */
type BodyPace = Pick<WireConnection, 'who' | 'stallMs' | 'progressMs'>;

/** Limits of a body. */
export interface BodyLimits {
  readonly from: BodyPace;
  /** What messages call the document. */
  readonly what: string;
  readonly maxBytes: number;
}

/**
 * The whole of a small body. The connection is closed when the body is too large or too slow.
 *
 * @throws AppError `offers/answer` (`reject`) when it is larger than `maxBytes`;
 *   `offers/unreachable` (`retry`) when it breaks off or is not there in time; whatever aborted
 *   `signal`
 */
export async function readBody(
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
 * The chunks of a body, at the consumer's pace. A consumer that stops early closes the connection.
 *
 * @throws AppError `offers/unreachable` (`retry`) when it breaks off, or brings nothing for
 *   `stallMs`, or less than `progressBytes` in `progressMs`, while it is waited for; whatever
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

/**
 * Whether a connection was closed by the other end, as a server does that can't go on with a body.
 */
export function wasCut(error: unknown): boolean {
  return error instanceof AppError && error.code === 'offers/unreachable' && systemCodeOf(error.cause) === 'ECONNRESET';
}

/**
 * Bytes that came while they were waited for: a consumer that pauses costs the other end nothing.
 */
function createProgress(progressMs: number) {
  const { progressBytes } = wireLimits;
  let waitedMs = 0;
  let bytes = 0;
  return {
    /** @throws Error for a body that comes too slowly to be waited for */
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

/** An answer that is not of the wire form. */
export function badAnswer(who: string, what: string, why: unknown): AppError<OffersErrorCode> {
  return new AppError({
    code: 'offers/answer',
    message: `${who} sends ${what} that can't be used: ${reasonOf(why)}`,
    disposition: 'reject',
    cause: why,
  });
}
