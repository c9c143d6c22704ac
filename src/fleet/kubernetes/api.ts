import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import * as v from 'valibot';
import { AppError, type Disposition, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { linkSignals, withDeadline } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import { defined } from '../../platform/defined.ts';
import { HttpClient, type HttpRequest, wholeBody } from '../../platform/http-client.ts';
import { jsonEntries } from '../../platform/json-entries.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';

const ANSWER_MS = 30_000;

const ANSWER_BYTES = 4 * 1024 * 1024;

/** A list of 5,000 Nodes as metadata has 15 to 50 MiB. */
const LIST_BYTES = 256 * 1024 * 1024;

const LIST_MS = 120_000;

/**
 * Requests with the kubelet's current credentials. Each one opens and closes a connection: an idle
 * cluster keeps only its watch, and a rotated certificate is used at once.
 */
export class KubernetesApi {
  /** @param credentials throws KubernetesError `kubernetes/kubeconfig` */
  constructor(readonly credentials: (signal: AbortSignal) => Promise<Credentials>) {}

  /** @throws KubernetesError */
  async send(request: ApiRequest, signal: AbortSignal): Promise<unknown> {
    const credentials = await this.credentials(signal);
    const what = `${credentials.server}${request.path}`;
    const answered = withDeadline(what, ANSWER_MS, signal, async (limited) => {
      const response = await client.open(requestOf(credentials, request), limited);
      return parsedAnswer(request, response, await textOf(response));
    });
    return answered.catch((error: unknown) => rethrow(error, credentials, signal));
  }

  /**
   * Calls `onItem` with each parsed item of a list. Returns the list without them.
   *
   * @throws KubernetesError
   */
  async list(request: ApiRequest, onItem: (item: unknown) => void, signal: AbortSignal): Promise<unknown> {
    const credentials = await this.credentials(signal);
    let listBytes = 0;
    const listed = withDeadline(`${credentials.server}${request.path}`, LIST_MS, signal, async (limited) => {
      const response = await client.open(requestOf(credentials, { ...request, isZipped: true }), limited);
      const body = unzipped(response);
      if (response.statusCode !== 200 || !isJson(response)) return parsedAnswer(request, response, await textOf(body));
      const around: Buffer[] = [];
      for await (const { bytes, isWhole } of jsonEntries(body, ANSWER_BYTES, around)) {
        if (!isWhole) throw tooLarge('an item of a list', ANSWER_BYTES);
        listBytes += bytes.length;
        if (listBytes > LIST_BYTES) throw tooLarge('a list', LIST_BYTES);
        onItem(parseJson(request, bytes.toString()));
      }
      return parseJson(request, Buffer.concat(around).toString());
    });
    return listed.catch((error: unknown) => rethrow(error, credentials, signal));
  }

  /**
   * The parsed lines of a watch, until the server ends it or `forMs` milliseconds have passed.
   *
   * @throws KubernetesError
   */
  async *watch(request: ApiRequest, forMs: number, signal: AbortSignal): AsyncGenerator<unknown, void, undefined> {
    const credentials = await this.credentials(signal);
    const end = new AbortController();
    const timer = setTimeout(() => end.abort(), forMs);
    const { signal: either, release } = linkSignals([signal, end.signal]);
    try {
      const response = await client.open({ ...requestOf(credentials, request), answerMs: ANSWER_MS }, either);
      if (response.statusCode !== 200 || !isJson(response)) parsedAnswer(request, response, await textOf(response));
      for await (const line of linesOf(response)) yield parseJson(request, line);
    } catch (error) {
      signal.throwIfAborted();
      if (!end.signal.aborted) rethrow(error, credentials, signal);
    } finally {
      clearTimeout(timer);
      end.abort();
      release();
    }
  }
}

/** Each request has a connection of its own. */
const client = new HttpClient();

function requestOf(credentials: Credentials, request: ApiRequest): HttpRequest {
  const { ca, certificate, key, token, serverName, isUnverified } = credentials;
  const { method, accept = 'application/json', contentType = 'application/json', isZipped = false } = request;
  const url = new URL(`${credentials.server}${request.path}`);
  for (const [name, value] of Object.entries(request.query ?? {})) url.searchParams.set(name, value);
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  const headers = {
    accept,
    'accept-encoding': isZipped ? 'gzip' : undefined,
    'user-agent': 'stickpin-fleet',
    'content-type': body && contentType,
    authorization: token === undefined ? undefined : `Bearer ${token}`,
  };
  const tls = { ca, cert: certificate, key, servername: serverName };
  return { url, method, body, rejectUnauthorized: !isUnverified, ...defined(tls), headers: defined(headers) };
}

function unzipped(response: IncomingMessage): Readable {
  if (response.headers['content-encoding'] !== 'gzip') return response;
  return pipeline(response, createGunzip(), () => undefined);
}

async function textOf(body: Readable): Promise<string> {
  return (await wholeBody(body, ANSWER_BYTES, (why) => kubernetesError('kubernetes/answer', why))).toString('utf8');
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  let incomplete: Buffer = Buffer.alloc(0);
  for await (const chunk of response as AsyncIterable<Buffer>) {
    incomplete = Buffer.concat([incomplete, chunk]);
    for (let end = incomplete.indexOf('\n'); end >= 0; end = incomplete.indexOf('\n')) {
      yield incomplete.subarray(0, end).toString('utf8');
      incomplete = incomplete.subarray(end + 1);
    }
    if (incomplete.length > ANSWER_BYTES) throw tooLarge('a line of a watch', ANSWER_BYTES);
  }
}

function tooLarge(what: string, maxBytes: number): KubernetesError {
  return kubernetesError('kubernetes/answer', `${what} has more than ${maxBytes} bytes`);
}

function parsedAnswer(request: ApiRequest, response: IncomingMessage, text: string): unknown {
  const { statusCode = 0, headers } = response;
  if (!isJson(response)) {
    const type = headers['content-type'] ?? 'no content type';
    // Load balancers send 429 and 503 too, with a text for people.
    if (statusCode === 429 || statusCode === 503) throw refusalOf(request, statusCode, headers, undefined);
    const what = `${request.method} ${request.path} was answered with status ${statusCode} and ${oneLine(type)} instead of JSON`;
    throw kubernetesError('kubernetes/answer', `${what}: something else than the Kubernetes API answers there`);
  }
  const answer = parseJson(request, text);
  if (statusCode < 200 || statusCode > 299) throw refusalOf(request, statusCode, headers, answer);
  return answer;
}

function isJson({ headers }: IncomingMessage): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\b/.test(headers['content-type'] ?? '');
}

function parseJson(request: ApiRequest, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `${request.method} ${request.path} was answered with broken JSON: ${oneLine(reasonOf(cause))}`;
    throw kubernetesError('kubernetes/answer', message, { cause });
  }
}

function rethrow(error: unknown, { server }: Credentials, signal: AbortSignal): never {
  signal.throwIfAborted();
  if (isKubernetesError(error)) throw error;
  // Node.js reports a broken answer only as "aborted".
  const why = systemCodeOf(error) === 'ECONNRESET' ? 'the connection was cut' : oneLine(reasonOf(error));
  const message = `${server} is not reached: ${why}`;
  throw kubernetesError('kubernetes/unreachable', message, { cause: error });
}

const status = v.object({
  kind: v.literal('Status'),
  message: v.optional(v.string(), ''),
  code: v.optional(v.number()),
  details: v.optional(v.object({ retryAfterSeconds: v.optional(v.number()) })),
});

const MESSAGE_CHARACTERS = 400;

const LONGEST_WAIT_S = 3_600;

/** @param answer the parsed body, if it is JSON */
function refusalOf(request: ApiRequest, code: number, headers: IncomingHttpHeaders, answer: unknown): KubernetesError {
  const { message, details } = readStatus(answer);
  const why = message === '' ? '' : `: ${clip(oneLine(message), MESSAGE_CHARACTERS)}`;
  return kubernetesError(codeOf(code), `${request.method} ${request.path} was refused with status ${code}${why}`, {
    ...retryAfter(headers['retry-after'] ?? details?.retryAfterSeconds),
  });
}

/** A date in the header counts as absent. */
function retryAfter(value: string | number = Number.NaN): { readonly retryAfterMs?: number } {
  const seconds = Number(value);
  return seconds >= 0 ? { retryAfterMs: Math.min(seconds, LONGEST_WAIT_S) * 1_000 } : {};
}

/**
 * "RequestWatchProgress is disabled": an old etcd has no bookmarks. Only the text of the `Status`
 * shows it.
 */
const NO_BOOKMARKS = 'RequestWatchProgress';

/** The object of an event `ERROR` is a `Status`. */
export function watchErrorOf(path: string, object: unknown): KubernetesError {
  const { message, code = 500, details } = readStatus(object);
  const text = `the watch of ${path} ended with status ${code}: ${clip(oneLine(message), MESSAGE_CHARACTERS)}`;
  const kind = message.includes(NO_BOOKMARKS) ? 'kubernetes/no-bookmarks' : codeOf(code);
  return kubernetesError(kind, text, retryAfter(details?.retryAfterSeconds));
}

function readStatus(answer: unknown): Partial<v.InferOutput<typeof status>> & { readonly message: string } {
  const result = v.safeParse(status, answer);
  return result.success ? result.output : { message: '' };
}

const CODES: Readonly<Record<number, KubernetesErrorCode>> = {
  401: 'kubernetes/unauthorized',
  403: 'kubernetes/forbidden',
  404: 'kubernetes/not-found',
  409: 'kubernetes/conflict',
  410: 'kubernetes/gone',
  429: 'kubernetes/busy',
  503: 'kubernetes/busy',
};

function codeOf(code: number): KubernetesErrorCode {
  return CODES[code] ?? (code >= 500 ? 'kubernetes/answer' : 'kubernetes/refused');
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PATCH';
  /** `/api/v1/nodes`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON, which is YAML too. */
  readonly body?: unknown;
  /** Default `application/json`. */
  readonly contentType?: string;
  /** Default `application/json`. */
  readonly accept?: string;
  /** The answer may be compressed. */
  readonly isZipped?: boolean;
}

const PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/**
 * The pause after a failure in milliseconds: 1 s, doubled with each failure up to 60 s, less up to
 * a half by chance, so that nodes don't come together. Never less than `Retry-After`.
 *
 * @param failures in a row, 1 or more
 * @param random 0 to 1
 */
export function backoffMs(failures: number, error: unknown, random: number): number {
  const leastMs = isKubernetesError(error) ? (error.retryAfterMs ?? 0) : 0;
  const full = pauseAfter(failures, PAUSES);
  const jitteredMs = full * (1 - random / 2);
  // Chance makes it later than `Retry-After`, too.
  return leastMs === 0 ? jitteredMs : Math.max(jitteredMs, leastMs * (1 + random / 10));
}

const DISPOSITIONS = {
  /** No kubeconfig, or one that can't be used. */
  'kubernetes/kubeconfig': 'wait',
  /** No connection, no answer in time, or a broken answer. */
  'kubernetes/unreachable': 'retry',
  /** 401: the kubelet's certificate was not accepted. */
  'kubernetes/unauthorized': 'retry',
  /** 403: a rule of the cluster refuses it. */
  'kubernetes/forbidden': 'wait',
  'kubernetes/not-found': 'wait',
  'kubernetes/conflict': 'retry',
  /** 410, or a watch of changes that are forgotten. */
  'kubernetes/gone': 'retry',
  /** The storage of this watch has no bookmarks. */
  'kubernetes/no-bookmarks': 'retry',
  /** 429 or 503, maybe with `retryAfterMs`. */
  'kubernetes/busy': 'retry',
  /** Any other refusal, such as 422. */
  'kubernetes/refused': 'reject',
  /** No Kubernetes API answered, but a proxy for example. */
  'kubernetes/answer': 'retry',
} as const satisfies Readonly<Record<string, Disposition>>;

type KubernetesErrorCode = keyof typeof DISPOSITIONS;

export type KubernetesError = AppError<KubernetesErrorCode> & {
  /** `Retry-After` in milliseconds. */
  readonly retryAfterMs?: number;
};

export function kubernetesError(
  code: KubernetesErrorCode,
  message: string,
  more: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
): KubernetesError {
  const { retryAfterMs, ...cause } = more;
  const error = new AppError({ code, message, disposition: DISPOSITIONS[code], ...cause });
  return retryAfterMs === undefined ? error : Object.assign(error, { retryAfterMs });
}

/** Any code counts if no `codes` are given. */
export function isKubernetesError(
  thrown: unknown,
  ...codes: readonly KubernetesErrorCode[]
): thrown is KubernetesError {
  if (!(thrown instanceof AppError) || !(thrown.code in DISPOSITIONS)) return false;
  return codes.length === 0 || codes.some((code) => code === thrown.code);
}

/** Certificates and keys are PEM. */
export interface Credentials {
  /** The kubeconfig. */
  readonly path: string;
  /** `https://10.0.0.1:6443`, without a slash at its end. */
  readonly server: string;
  /** The name in the certificate, where it differs from `server`. */
  readonly serverName?: string;
  /** Absent: those of the system. */
  readonly ca?: string;
  readonly isUnverified: boolean;
  readonly certificate?: string;
  readonly key?: string;
  readonly token?: string;
  /** The subject of the certificate has it; absent when it is not a kubelet's. */
  readonly nodeName?: string;
}
