import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import * as v from 'valibot';
import { limits } from '../bundle/limits.ts';
import type { Reference } from '../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { pauseAfter } from '../platform/backoff.ts';
import { defined } from '../platform/defined.ts';
import { HttpClient, wholeBody } from '../platform/http-client.ts';
import { certificatesOf, loginFor, parseSecret } from './logins.ts';
import { proxies } from './proxies.ts';

export type Repository = Pick<Reference, 'registry' | 'repository'>;

/** Absent values have the defaults of skopeo. */
export interface RegistryAccess {
  /** containers-auth.json(5). */
  readonly authfile?: string | undefined;
  readonly tlsVerify?: boolean;
  /** The number of tries in a row. Pauses grow. */
  readonly retries?: number;
  /** A file of certificates in PEM, in place of those of the system. */
  readonly ca?: string | undefined;
}

export interface Ask {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT';
  /** The path with its query, if any. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | number>>;
  /** If it is a stream, it is read once, and the headers have the length. */
  readonly body?: Buffer | AsyncIterable<Buffer>;
  /** Leads to another host are followed there, without a login. Default false. */
  readonly follows?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** The limit without progress. A registry may need long until it has stored a blob. */
const IDLE_MS = 60_000;
const STORE_MS = 600_000;
/** A whole document, over a link of 256 kbit/s too. */
const ANSWER_MS = 180_000;
const PAUSES = { firstMs: 1_000, longestMs: 60_000 };
/** A registry that requests a longer pause fails the work. */
const LONGEST_WISH_MS = 600_000;
const MOST_LEADS = 5;
const LEADS = new Set([301, 302, 303, 307, 308]);
/** Statuses 5xx that no other try changes. */
const LASTING = new Set([501, 505]);

/** The registry works, and refuses; or is busy, and `mayPass`. */
export class Answered extends Error {
  constructor(
    message: string,
    readonly mayPass = false,
    /** The pause in milliseconds; 0 when the registry names none. */
    readonly wishMs = 0,
  ) {
    super(message);
  }
}

/** The connection broke, or there was none. */
export class Broken extends Error {}

/**
 * HTTP to one repository of a registry (distribution-spec 1.1), which skopeo does not do for
 * documents of ours. Credentials and certificates are skopeo's, but no credential helpers and no
 * mirrors; proxies are those of the environment. A login goes only to the registry, and to where it
 * says that its tokens come from, and only with TLS.
 */
export class RegistryClient {
  readonly host: string;
  /** `/v2/NAME/`. */
  readonly base: string;
  private authorization: string | undefined;
  private isPlain = false;
  /** It is created late: an unusable proxy fails a request, and not the start of a service. */
  private http: HttpClient | undefined;

  /** @param actions what a token is to allow */
  constructor(
    private readonly of: Repository,
    private readonly access: RegistryAccess,
    private readonly actions: 'pull' | 'pull,push' = 'pull',
  ) {
    this.host = hostOf(of.registry);
    this.base = `/v2/${of.repository.slice(of.registry.length + 1)}/`;
  }

  /**
   * @param progress what was done so far: tries count from its last change
   * @throws the last error of `work`: {@link Answered}, or an Error of the connection
   */
  async again<T>(signal: AbortSignal, work: () => Promise<T>, progress: () => number = () => 0): Promise<T> {
    for (let tries = 0, before = progress(); ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        signal.throwIfAborted();
        if (progress() !== before) tries = 0;
        before = progress();
        const wishMs = error instanceof Answered ? error.wishMs : 0;
        const isLasting = !(error instanceof Broken) && !(error instanceof Answered && error.mayPass);
        if (isLasting || tries >= (this.access.retries ?? 0) || wishMs > LONGEST_WISH_MS) throw error;
        const pauseMs = Math.max(wishMs, pauseAfter(tries + 1, PAUSES));
        await sleep(pauseMs, undefined, { signal });
      }
    }
  }

  /** An answer of at most 4 MiB, tried again. @throws as {@link again} */
  document(ask: Ask, signal: AbortSignal): Promise<Answer> {
    const take = async (inner: AbortSignal): Promise<Answer> => {
      const response = await this.open(ask, inner);
      return { status: response.statusCode ?? 0, headers: response.headers, body: await wholeAnswer(response) };
    };
    return this.again(signal, () =>
      withDeadline(`registry ${this.of.registry}`, ANSWER_MS, signal, take).catch((error: unknown) => {
        throw error instanceof AppError && error.code === 'platform/deadline' ? new Broken(error.message) : error;
      }),
    );
  }

  /**
   * The caller reads the body with {@link bodyOf}. A stream is not sent again after a question for
   * a login.
   *
   * @throws Answered for 429 and 5xx; Error when there is no connection
   */
  async open(ask: Ask, signal: AbortSignal): Promise<IncomingMessage> {
    let response = await this.send(this.host, ask, this.authorization, signal);
    const challenge = response.headers['www-authenticate'] ?? '';
    // A registry without TLS must not name the place that gets the credentials.
    if (response.statusCode === 401 && challenge !== '' && !this.isPlain) {
      await wholeAnswer(response);
      this.authorization = await this.authorize(challenge, signal);
      const isSpent = ask.body !== undefined && !Buffer.isBuffer(ask.body);
      if (isSpent) throw new Answered('it asks for a login in the middle', true);
      response = await this.send(this.host, ask, this.authorization, signal);
    }
    if (ask.follows === true) response = await this.follow(ask, response, signal);
    const { statusCode: status = 0, headers } = response;
    if (status !== 429 && (status < 500 || LASTING.has(status))) return response;
    response.destroy();
    throw new Answered(`it answers ${status}`, true, wishOf(headers['retry-after']));
  }

  /** Storage of large registries is elsewhere, and its addresses are secrets themselves. */
  private async follow(ask: Ask, first: IncomingMessage, signal: AbortSignal): Promise<IncomingMessage> {
    let response = first;
    let here = `${this.isPlain ? 'http' : 'https'}://${this.host}${ask.path}`;
    for (let leads = 0; LEADS.has(response.statusCode ?? 0); leads += 1) {
      if (leads === MOST_LEADS) throw new Answered(`it leads on more than ${MOST_LEADS} times`);
      const { location = '' } = response.headers;
      await wholeAnswer(response);
      if (!URL.canParse(location, here)) throw new Answered('it leads on to a malformed address');
      const next = new URL(location, here);
      if (next.username !== '') throw new Answered(`it leads on to ${next.host} with a login`);
      if (next.protocol !== 'https:' && this.access.tlsVerify !== false) {
        throw new Answered(`it leads on to ${next.host}, without TLS`);
      }
      here = next.href;
      const elsewhere = { ...ask, path: `${next.pathname}${next.search}` };
      const isPlain = next.protocol === 'http:';
      response = await this.exchange(next.host, elsewhere, { isPlain, authorization: undefined }, signal);
    }
    return response;
  }

  /** RFC 7235, and the token protocol of registries. */
  private async authorize(challenge: string, signal: AbortSignal): Promise<string | undefined> {
    const login = await loginFor(this.of, this.access.authfile);
    const basic = login === undefined ? undefined : `Basic ${login}`;
    if (!/^bearer /i.test(challenge)) return basic;
    const parts = new Map(
      [...challenge.matchAll(/([a-z]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
    );
    if (!URL.canParse(parts.get('realm') ?? '')) throw new Answered('it does not say where its tokens come from');
    const realm = new URL(parts.get('realm') ?? '');
    if (realm.protocol !== 'https:') throw new Error(`its tokens come from ${realm.host}, without TLS`);
    const scope = `repository:${this.of.repository.slice(this.of.registry.length + 1)}:${this.actions}`;
    for (const [key, value] of [
      ['service', parts.get('service')],
      ['scope', scope],
    ] as const) {
      if (value !== undefined) realm.searchParams.set(key, value);
    }
    const path = `${realm.pathname}${realm.search}`;
    const answer = await this.exchange(realm.host, { path }, { isPlain: false, authorization: basic }, signal);
    const body = await wholeAnswer(answer);
    if (answer.statusCode !== 200) {
      const isBusy = answer.statusCode === 429 || (answer.statusCode ?? 0) >= 500;
      throw new Answered(`${realm.host} gives no token (${answer.statusCode})`, isBusy);
    }
    const found = parseSecret(body, tokenAnswer, `the token of ${realm.host}`);
    const token = found.token ?? found.access_token;
    if (token === undefined) throw new Answered(`${realm.host} gives no token`);
    return `Bearer ${token}`;
  }

  /** A registry without TLS gets no credentials, with `--tls-verify=false`. */
  private async send(
    host: string,
    ask: Ask,
    authorization: string | undefined,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    if (this.isPlain) return this.exchange(host, ask, { isPlain: true, authorization: undefined }, signal);
    try {
      return await this.exchange(host, ask, { isPlain: false, authorization }, signal);
    } catch (error) {
      const isWithoutTls = error instanceof Error && systemCodeOf(error.cause) === 'EPROTO';
      if (!isWithoutTls) throw error;
      if (this.access.tlsVerify !== false) throw new Answered(`${host} has no TLS: ${WITHOUT_TLS}`);
      const answer = await this.exchange(host, ask, { isPlain: true, authorization: undefined }, signal);
      this.isPlain = true;
      return answer;
    }
  }

  private async exchange(
    host: string,
    { method = 'GET', path, headers, body }: Ask,
    { isPlain, authorization }: { readonly isPlain: boolean; readonly authorization: string | undefined },
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    this.http ??= new HttpClient({}, { keepAlive: true, proxyEnv: proxies() });
    const ca = await certificatesOf(host === this.host ? this.of.registry : host, this.access.ca);
    const tls = { rejectUnauthorized: this.access.tlsVerify !== false, ...defined({ ca }) };
    const request = {
      url: `${isPlain ? 'http' : 'https'}://${host}${path}`,
      method,
      headers: { ...headers, ...defined({ authorization }) },
      body,
      idleMs: method === 'PUT' ? STORE_MS : IDLE_MS,
      ...(!isPlain && tls),
    };
    return this.http.open(request, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw asBroken(error);
    });
  }
}

/** Advice for a registry that answers without TLS. */
export const WITHOUT_TLS = 'if it is meant to be so, give --tls-verify=false';

const tokenAnswer = v.looseObject({ token: v.exactOptional(v.string()), access_token: v.exactOptional(v.string()) });

/** The chunks of an answer. @throws Error when it breaks off */
export async function* bodyOf(response: IncomingMessage): AsyncGenerator<Buffer, void, undefined> {
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) yield chunk;
  } catch (error) {
    throw asBroken(error);
  }
  if (!response.complete) throw new Broken('its answer broke off');
}

function wholeAnswer(response: IncomingMessage): Promise<Buffer> {
  return wholeBody(bodyOf(response), limits.manifestBytes, (message) => new Answered(message));
}

/** Faults that another try may change. Faults of certificates are not among them. */
const PASSING = /^E(?!RR_|PROTO$)[A-Z_]+$/;

function asBroken(error: unknown): unknown {
  if (error instanceof AppError || error instanceof Answered || error instanceof Broken) return error;
  const reason = reasonOf(error);
  const code = systemCodeOf(error);
  if (code !== undefined && !PASSING.test(code)) return new Error(reason, { cause: error });
  return new Broken(reason, { cause: error });
}

function hostOf(registry: string): string {
  return registry === 'docker.io' ? 'registry-1.docker.io' : registry;
}

/** RFC 9110, section 10.2.3. The pause in milliseconds; 0 when there is none. */
function wishOf(retryAfter: string | undefined): number {
  if (retryAfter === undefined) return 0;
  const wishMs = /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) * 1_000 : Date.parse(retryAfter) - Date.now();
  return Number.isNaN(wishMs) ? 0 : Math.max(0, wishMs);
}
