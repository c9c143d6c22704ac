import { Agent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect as connectSocket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import { responseTo } from '../../platform/http.ts';
import { offersError, wireLimits } from './documents.ts';

export interface WireRequest {
  readonly path: string;
  /** Default GET. */
  readonly method?: 'GET' | 'HEAD';
  readonly headers?: OutgoingHttpHeaders;
  /** How long the server may wait for a change, in milliseconds. Default 0. */
  readonly waitMs?: number;
}

interface WireConnectionOptions {
  /** For messages. */
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
  /** Default {@link wireLimits.stallMs}. */
  readonly stallMs?: number;
  /** Default {@link wireLimits.progressMs}. */
  readonly progressMs?: number;
}

/** Tries of a request on a connection that the server was just closing. */
const TRIES = 3;

/** Keeps connections open for a few seconds. Opens nothing before the first request. */
export class WireConnection {
  readonly who: string;
  /** How long a body may bring no byte, in milliseconds. */
  readonly stallMs: number;
  /** Time for `wireLimits.progressBytes` of a body, in milliseconds. */
  readonly progressMs: number;
  private readonly answerMs: number;
  private readonly agent: Agent;

  constructor(options: WireConnectionOptions) {
    const { who, connect, maxConnections = 64 } = options;
    this.who = who;
    this.stallMs = options.stallMs ?? wireLimits.stallMs;
    this.progressMs = options.progressMs ?? wireLimits.progressMs;
    this.answerMs = options.answerMs ?? wireLimits.answerMs;
    this.agent = new Agent({ keepAlive: true, maxSockets: maxConnections, timeout: wireLimits.idleMs });
    Object.assign(this.agent, {
      createConnection: (_options: unknown, done: (error: Error | null, stream?: Duplex) => void) => {
        Promise.resolve()
          .then(connect)
          .then(
            (stream) => done(null, stream),
            (error: Error) => done(error),
          );
      },
    });
  }

  /**
   * Resolves with the head of the answer, of any status. The body must be read or destroyed; an
   * abort ends it too.
   *
   * @throws AppError `offers/unreachable` (`retry`), `offers/answer` (`reject`) for what is no
   *   HTTP; whatever aborted `signal`
   */
  async open(wanted: WireRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt += 1) {
      signal.throwIfAborted();
      const { answer, isReused } = this.send(wanted, signal);
      try {
        return await answer;
      } catch (error) {
        signal.throwIfAborted();
        const wasClosing = isReused() && ['ECONNRESET', 'EPIPE'].includes(systemCodeOf(error) ?? '');
        if (!wasClosing || attempt === TRIES) throw connectionError(this.who, error);
      }
    }
  }

  /** Running requests fail. */
  close(): void {
    this.agent.destroy();
  }

  private send({ path, method = 'GET', headers = {}, waitMs = 0 }: WireRequest, signal: AbortSignal) {
    const request = httpRequest({
      agent: this.agent,
      host: 'stickpin',
      method,
      path,
      headers,
      signal,
      maxHeaderSize: wireLimits.headerBytes,
    });
    const limitMs = this.answerMs + waitMs;
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
}

export function unixSocket(path: string): () => Duplex {
  return () => connectSocket(path);
}

/** An AppError stays as it is. */
export function connectionError(who: string, cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  return systemCodeOf(cause)?.startsWith('HPE_')
    ? offersError('offers/answer', `${who} sent what can't be read as an answer: ${reasonOf(cause)}`, cause)
    : offersError('offers/unreachable', `${who} does not answer: ${reasonOf(cause)}`, cause);
}
