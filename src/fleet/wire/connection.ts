import type { OutgoingHttpHeaders } from 'node:http';
import { connect as connectSocket } from 'node:net';
import type { Duplex } from 'node:stream';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { HttpClient } from '../../platform/http-client.ts';
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

/** Keeps connections open for a few seconds. Opens nothing before the first request. */
export class WireConnection {
  readonly who: string;
  /** How long a body may bring no byte, in milliseconds. */
  readonly stallMs: number;
  /** Time for `wireLimits.progressBytes` of a body, in milliseconds. */
  readonly progressMs: number;
  private readonly answerMs: number;
  private readonly http: HttpClient;

  constructor(options: WireConnectionOptions) {
    const { who, connect, maxConnections = 64 } = options;
    this.who = who;
    this.stallMs = options.stallMs ?? wireLimits.stallMs;
    this.progressMs = options.progressMs ?? wireLimits.progressMs;
    this.answerMs = options.answerMs ?? wireLimits.answerMs;
    this.http = new HttpClient(
      { maxHeaderSize: wireLimits.headerBytes },
      { keepAlive: true, maxSockets: maxConnections, timeout: wireLimits.idleMs, connect },
    );
  }

  /**
   * Resolves with the head of the answer, of any status. The body must be read or destroyed; an
   * abort ends it too.
   *
   * @throws AppError `offers/unreachable` (`retry`), `offers/answer` (`reject`) for what is no
   *   HTTP; whatever aborted `signal`
   */
  async open({ path, method = 'GET', headers = {}, waitMs = 0 }: WireRequest, signal: AbortSignal) {
    const request = { url: 'http://stickpin', path, method, headers, answerMs: this.answerMs + waitMs };
    return this.http.open(request, signal).catch((error: unknown): never => {
      signal.throwIfAborted();
      throw connectionError(this.who, error);
    });
  }

  /** Running requests fail. */
  close(): void {
    this.http.close();
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
