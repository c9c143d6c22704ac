import { Agent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect as connectSocket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import { responseTo } from '../../platform/http.ts';
import type { OffersErrorCode } from '../busy.ts';
import { wireLimits } from '../documents.ts';

export interface WireRequest {
  readonly path: string;
  /** Default GET. */
  readonly method?: 'GET' | 'HEAD';
  readonly headers?: OutgoingHttpHeaders;
  /** How long the server may wait for a change, in milliseconds. Default 0. */
  readonly waitMs?: number;
}

/** Keeps connections open for a few seconds. */
export interface WireConnection {
  /** For messages. */
  readonly who: string;
  /** How long a body may bring no byte, in milliseconds. */
  readonly stallMs: number;
  /** Time for `wireLimits.progressBytes` of a body, in milliseconds. */
  readonly progressMs: number;
  /**
   * Resolves with the head of the answer, of any status. The body must be read or destroyed; an
   * abort ends it too.
   *
   * @throws AppError `offers/unreachable` (`retry`), `offers/answer` (`reject`) for what is no
   *   HTTP; whatever aborted `signal`
   */
  open(request: WireRequest, signal: AbortSignal): Promise<IncomingMessage>;
  /** Running requests fail. */
  close(): void;
}

export interface WireConnectionOptions {
  readonly who: string;
  /**
   * Opens a Unix socket, or TLS whose peer was verified. It may reject, or resolve before the
   * stream is connected.
   */
  readonly connect: () => Duplex | Promise<Duplex>;
  /** Most connections at once; further requests wait. Default 64. */
  readonly maxConnections?: number;
  /** For the head of an answer, in milliseconds. Default {@link wireLimits.answerMs}. */
  readonly answerMs?: number;
  /** As {@link WireConnection.stallMs}. Default {@link wireLimits.stallMs}. */
  readonly stallMs?: number;
  /** As {@link WireConnection.progressMs}. Default {@link wireLimits.progressMs}. */
  readonly progressMs?: number;
}

/** Opens nothing before the first request. */
export function createWireConnection(options: WireConnectionOptions): WireConnection {
  const { who, connect, maxConnections = 64 } = options;
  const { answerMs = wireLimits.answerMs, stallMs = wireLimits.stallMs, progressMs = wireLimits.progressMs } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: maxConnections, timeout: wireLimits.idleMs });
  Object.assign(agent, {
    createConnection: (_options: unknown, done: (error: Error | null, stream?: Duplex) => void) => {
      Promise.resolve()
        .then(connect)
        .then(
          (stream) => done(null, stream),
          (error: Error) => done(error),
        );
    },
  });
  return {
    who,
    stallMs,
    progressMs,
    open: (request, signal) => open({ who, agent, answerMs }, request, signal),
    close: () => agent.destroy(),
  };
}

export function unixSocket(path: string): () => Duplex {
  return () => connectSocket(path);
}

/** Tries of a request on a connection that the server was just closing. */
const TRIES = 3;

interface Way {
  readonly who: string;
  readonly agent: Agent;
  readonly answerMs: number;
}

async function open(way: Way, wanted: WireRequest, signal: AbortSignal): Promise<IncomingMessage> {
  for (let attempt = 1; ; attempt += 1) {
    signal.throwIfAborted();
    const sent = send(way, wanted, signal);
    try {
      return await sent.answer;
    } catch (error) {
      signal.throwIfAborted();
      const wasClosing = sent.isReused() && ['ECONNRESET', 'EPIPE'].includes(systemCodeOf(error) ?? '');
      if (!wasClosing || attempt === TRIES) throw connectionError(way.who, error);
    }
  }
}

interface Sent {
  readonly answer: Promise<IncomingMessage>;
  isReused(): boolean;
}

function send(
  { agent, answerMs }: Way,
  { path, method = 'GET', headers = {}, waitMs = 0 }: WireRequest,
  signal: AbortSignal,
): Sent {
  const request = httpRequest({
    agent,
    host: 'stickpin',
    method,
    path,
    headers,
    signal,
    maxHeaderSize: wireLimits.headerBytes,
  });
  const limitMs = answerMs + waitMs;
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new Error(`no answer within ${limitMs / 1_000} s`)), limitMs);
  const answer = withEither([signal, over.signal], (either) => responseTo(request, either)).then((response) => {
    // The reader of the body gets the error; without a reader it is ignored.
    response.on('error', () => undefined);
    return response;
  });
  const settled = () => clearTimeout(timer);
  answer.then(settled, settled);
  request.end();
  return { answer, isReused: () => request.reusedSocket };
}

/** An AppError stays as it is. */
export function connectionError(who: string, cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  const isMalformed = systemCodeOf(cause)?.startsWith('HPE_') === true;
  return new AppError<OffersErrorCode>({
    code: isMalformed ? 'offers/answer' : 'offers/unreachable',
    message: isMalformed
      ? `${who} sent what can't be read as an answer: ${reasonOf(cause)}`
      : `${who} does not answer: ${reasonOf(cause)}`,
    disposition: isMalformed ? 'reject' : 'retry',
    cause,
  });
}
