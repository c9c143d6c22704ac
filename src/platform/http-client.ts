import {
  type AgentOptions,
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  request as requestPlain,
} from 'node:http';
import { Agent as HttpsAgent, type RequestOptions, request as requestTls } from 'node:https';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError, systemCodeOf } from './app-error.ts';
import { withEither } from './async/abort.ts';

export interface HttpRequest extends RequestOptions {
  readonly url: string | URL;
  /** A stream is read once. */
  readonly body?: string | Buffer | AsyncIterable<Buffer> | undefined;
  /** Time for the head of the answer, in milliseconds. Default: until the signal aborts. */
  readonly answerMs?: number;
  /** How long the connection may carry nothing, in milliseconds. Default: no limit. */
  readonly idleMs?: number;
}

interface ConnectionPool extends AgentOptions {
  /** Opens a connection in place of Node.js; it may resolve before the stream is connected. */
  readonly connect?: () => Duplex | Promise<Duplex>;
}

/** A request on a connection that the server was just closing is sent so often. */
const TRIES = 3;

const KEEP_ALIVE_MS = 30_000;

/** Redirects are never followed. */
export class HttpClient {
  private readonly agents: { readonly plain: HttpAgent; readonly tls: HttpsAgent } | undefined;

  /**
   * @param base members of all requests, for example `socketPath`
   * @param pool connections are kept for further requests; default: each request opens a new one
   */
  constructor(
    private readonly base: RequestOptions = {},
    pool?: ConnectionPool,
  ) {
    if (pool === undefined) return;
    const { connect, ...options } = pool;
    this.agents = { plain: new HttpAgent(options), tls: new HttpsAgent(options) };
    if (connect === undefined) return;
    const createConnection = (_options: unknown, done: (error: Error | null, stream?: Duplex) => void) => {
      Promise.resolve()
        .then(connect)
        .then(
          (stream) => done(null, stream),
          (error: Error) => done(error),
        );
    };
    Object.assign(this.agents.plain, { createConnection });
  }

  /**
   * Resolves with the head of the answer, of any status. The caller reads or destroys the body; an
   * abort ends it too.
   * @throws system errors; an AppError of a body that is a stream; the reason of `signal`
   */
  async open(wanted: HttpRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt += 1) {
      signal.throwIfAborted();
      const request = this.send(wanted, signal);
      try {
        return await answerTo(request, wanted, signal);
      } catch (error) {
        signal.throwIfAborted();
        const wasClosing = request.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(systemCodeOf(error) ?? '');
        if (!wasClosing || wanted.body !== undefined || attempt === TRIES) throw error;
      }
    }
  }

  /** Running requests on kept connections fail. */
  close(): void {
    this.agents?.plain.destroy();
    this.agents?.tls.destroy();
  }

  private send({ url, body: _, answerMs: __, idleMs, ...options }: HttpRequest, signal: AbortSignal): ClientRequest {
    const isTls = String(url).startsWith('https:');
    const agent = (isTls ? this.agents?.tls : this.agents?.plain) ?? false;
    const all = { ...this.base, agent, ...options, signal, ...(idleMs !== undefined && { timeout: idleMs }) };
    const request = isTls ? requestTls(url, all) : requestPlain(url, all);
    request.on('socket', (socket) => socket.setKeepAlive?.(true, KEEP_ALIVE_MS));
    return request;
  }
}

async function answerTo(
  request: ClientRequest,
  { body, answerMs, idleMs }: HttpRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const over = new AbortController();
  const late = () => over.abort(new Error(`no answer within ${(answerMs ?? 0) / 1_000} s`));
  const timer = answerMs === undefined ? undefined : setTimeout(late, answerMs);
  const answer = withEither([signal, over.signal], (either) => responseTo(request, either, idleMs));
  const isStream = typeof body === 'object' && !Buffer.isBuffer(body);
  const sending = isStream ? pipeline(body, request).catch((error: unknown) => error) : void request.end(body);
  try {
    return await answer;
  } catch (error) {
    const unread = await sending;
    throw unread instanceof AppError ? unread : error;
  } finally {
    clearTimeout(timer);
  }
}

/** It ends on abort: Node.js reports no error of a request after a switch of protocols. */
function responseTo(request: ClientRequest, signal: AbortSignal, idleMs?: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    const onAbort = () => fail(signal.reason);
    const settle = () => signal.removeEventListener('abort', onAbort);
    const fail = (error: unknown) => {
      settle();
      reject(error);
      request.destroy();
    };
    request.on('error', fail);
    request.once('response', (response) => {
      settle();
      // The reader of the body gets its error; without a reader it is ignored.
      response.on('error', () => undefined);
      answer = response;
      resolve(response);
    });
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      fail(new Error('it switches to another protocol'));
    });
    if (idleMs !== undefined) {
      request.once('timeout', () => (answer ?? request).destroy(new Error(`nothing came for ${idleMs / 1_000} s`)));
    }
    request.once('close', () => fail(new Error('the connection was closed')));
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}

/** @param tooLarge makes the error; default: AppError `http/too-large` (`reject`) */
export async function wholeBody(
  body: AsyncIterable<Buffer>,
  maxBytes: number,
  tooLarge: (message: string) => Error = (message) =>
    new AppError({ code: 'http/too-large', message, disposition: 'reject' }),
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw tooLarge(`its answer has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
