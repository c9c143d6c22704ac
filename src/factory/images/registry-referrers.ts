import { readdir, readFile } from 'node:fs/promises';
import { type RequestOptions as HttpOptions, get as httpGet, type IncomingMessage } from 'node:http';
import { get as httpsGet, type RequestOptions } from 'node:https';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import * as v from 'valibot';
import { parseJson } from '../../bundle/format/json.ts';
import { parseReferrers, type Referral } from '../../bundle/format/referrers.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Reference } from '../../domain/model/reference.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import { defined } from '../../platform/defined.ts';
import { responseTo } from '../../platform/http.ts';

type Repository = Pick<Reference, 'registry' | 'repository'>;

/** Absent values are skopeo's defaults. */
export interface RegistryAccess {
  /** containers-auth.json(5). */
  readonly authfile?: string;
  readonly tlsVerify?: boolean;
  /** Pauses grow. */
  readonly retries?: number;
}

const ANSWER_MS = 30_000;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAGES = 32;
/** Their answers mean that the registry has no such list (distribution-spec 1.1). */
const WITHOUT_LIST = new Set([400, 404, 405, 406, 415, 501]);

/**
 * Lists referrers by the API of distribution-spec 1.1, which skopeo does not ask. Credentials and
 * certificates are skopeo's, but no credential helpers and no mirrors.
 */
export class RegistryReferrers {
  /** Why the list of a registry can't be had, once for each registry. */
  readonly notes = new Map<string, string>();
  private readonly tokens = new Map<string, string>();

  constructor(private readonly access: RegistryAccess) {}

  /** Undefined where only a referrers tag may have them. Throws an abort only. */
  async list(of: Repository, subject: Digest, signal: AbortSignal): Promise<readonly Referral[] | undefined> {
    const { registry, repository } = of;
    if (this.notes.has(registry) || this.notes.has(repository)) return undefined;
    try {
      return await this.listPages(of, subject, signal);
    } catch (error) {
      signal.throwIfAborted();
      const why = `${repository} in registry ${registry}: no list of referrers (${reasonOf(error)}): only those under a tag sha256-<digest> travel`;
      this.notes.set(error instanceof Answered ? repository : registry, why);
      return undefined;
    }
  }

  private async listPages(of: Repository, subject: Digest, signal: AbortSignal): Promise<Referral[] | undefined> {
    const found: Referral[] = [];
    let path: string | undefined = `/v2/${of.repository.slice(of.registry.length + 1)}/referrers/${subject}`;
    for (let pages = 0; path !== undefined; pages += 1) {
      if (pages === MAX_PAGES) throw new Answered(`its list has more than ${MAX_PAGES} pages`);
      const answer = await this.askAgain(of, path, signal);
      if (answer.status !== 200) {
        if (pages === 0 && WITHOUT_LIST.has(answer.status)) return undefined;
        throw new Answered(`it answers ${answer.status}`);
      }
      try {
        found.push(...parseReferrers(answer.body, 'its list', 'bundle/source'));
      } catch (error) {
        throw new Answered(reasonOf(error));
      }
      path = nextPath(answer.link, hostOf(of.registry), path);
    }
    return found;
  }

  private async askAgain(of: Repository, path: string, signal: AbortSignal): Promise<Answer> {
    const ask = (inner: AbortSignal) => this.ask(of, path, inner);
    for (let tries = 0; ; tries += 1) {
      try {
        const answer = await withDeadline(`registry ${of.registry}`, ANSWER_MS, signal, ask);
        if (!mayPass(answer.status)) return answer;
        throw new Answered(`it answers ${answer.status}`);
      } catch (error) {
        signal.throwIfAborted();
        if (tries >= (this.access.retries ?? 0)) throw error;
        await setTimeout(Math.min(60_000, FIRST_PAUSE_MS * 2 ** tries), undefined, { signal });
      }
    }
  }

  private async ask(of: Repository, path: string, signal: AbortSignal): Promise<Answer> {
    const token = this.tokens.get(of.repository);
    const first = await this.get(of.registry, path, token && `Bearer ${token}`, signal);
    if (first.status !== 401 || first.challenge === '') return first;
    const authorization = await this.authorize(of, first.challenge, signal);
    return this.get(of.registry, path, authorization, signal);
  }

  /** RFC 7235, and the token protocol of registries. */
  private async authorize(of: Repository, challenge: string, signal: AbortSignal): Promise<string | undefined> {
    const login = await loginFor(of, this.access.authfile);
    const basic = login === undefined ? undefined : `Basic ${login}`;
    if (!/^bearer /i.test(challenge)) return basic;
    const parts = new Map(
      [...challenge.matchAll(/([a-z]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
    );
    const realm = new URL(parts.get('realm') ?? '');
    if (realm.protocol !== 'https:') throw new Error(`its tokens come from ${realm.origin}, without TLS`);
    const scope = `repository:${of.repository.slice(of.registry.length + 1)}:pull`;
    for (const [key, value] of [
      ['service', parts.get('service')],
      ['scope', scope],
    ] as const) {
      if (value !== undefined) realm.searchParams.set(key, value);
    }
    const answer = await this.get(realm.host, `${realm.pathname}${realm.search}`, basic, signal);
    const found = parseJson(answer.body, tokenAnswer, `the token of ${realm.host}`, 'bundle/source');
    const token = found.token ?? found.access_token;
    if (token === undefined) throw new Error(`${realm.host} gives no token (${answer.status})`);
    this.tokens.set(of.repository, token);
    return `Bearer ${token}`;
  }

  /** With `--tls-verify=false` a registry without TLS is asked without credentials. */
  private async get(
    registry: string,
    path: string,
    authorization: string | undefined,
    signal: AbortSignal,
  ): Promise<Answer> {
    const host = hostOf(registry);
    const headers = { accept: 'application/vnd.oci.image.index.v1+json', ...defined({ authorization }) };
    const options: RequestOptions = {
      headers,
      signal,
      rejectUnauthorized: this.access.tlsVerify !== false,
      ...defined({ ca: await certificatesOf(registry) }),
    };
    try {
      return await answerOf(await responseTo(httpsGet(`https://${host}${path}`, options), signal));
    } catch (error) {
      if (systemCodeOf(error) !== 'EPROTO' || this.access.tlsVerify !== false) throw error;
      const plain: HttpOptions = { headers: { accept: headers.accept }, signal };
      const answer = await answerOf(await responseTo(httpGet(`http://${host}${path}`, plain), signal));
      // Whoever answers without TLS must not say where credentials are sent.
      return { ...answer, challenge: '' };
    }
  }
}

const tokenAnswer = v.looseObject({ token: v.exactOptional(v.string()), access_token: v.exactOptional(v.string()) });

interface Answer {
  readonly status: number;
  readonly challenge: string;
  /** RFC 8288. */
  readonly link: string;
  readonly body: Buffer;
}

async function answerOf(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > limits.manifestBytes) throw new Error(`its answer has more than ${limits.manifestBytes} bytes`);
    chunks.push(chunk);
  }
  const { statusCode = 0, headers } = response;
  const challenge = headers['www-authenticate'] ?? '';
  return { status: statusCode, challenge, link: String(headers.link ?? ''), body: Buffer.concat(chunks) };
}

/** The registry works, and refuses this repository. */
class Answered extends Error {}

function hostOf(registry: string): string {
  return registry === 'docker.io' ? 'registry-1.docker.io' : registry;
}

function mayPass(status: number): boolean {
  return status === 429 || (status >= 500 && !WITHOUT_LIST.has(status));
}

/** distribution-spec 1.1, "Listing Referrers". A login goes to no other host. */
function nextPath(link: string, host: string, path: string): string | undefined {
  const [, next] = /<([^<>]*)>\s*;[^,<]*\brel="?next\b/i.exec(link) ?? [];
  if (next === undefined) return undefined;
  const here = new URL(`https://${host}${path}`);
  if (!URL.canParse(next, here.href)) throw new Answered('its list goes on at a malformed address');
  const found = new URL(next, here);
  // Behind a proxy a registry may think that it has no TLS.
  if (found.hostname !== here.hostname || found.username !== '') {
    throw new Answered(`its list goes on at another host, ${found.host}`);
  }
  return `${found.pathname}${found.search}`;
}

const authSchema = v.looseObject({
  auths: v.exactOptional(v.record(v.string(), v.looseObject({ auth: v.exactOptional(v.string()) }))),
});

/** containers-auth.json(5): the longest name that is the repository or above it. */
async function loginFor(
  { repository, registry }: Repository,
  authfile: string | undefined,
): Promise<string | undefined> {
  const { REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR } = process.env;
  const given = authfile ?? REGISTRY_AUTH_FILE;
  const usual = [
    ...(XDG_RUNTIME_DIR === undefined ? [] : [join(XDG_RUNTIME_DIR, 'containers/auth.json')]),
    join(homedir(), '.config/containers/auth.json'),
    join(homedir(), '.docker/config.json'),
  ];
  for (const path of given === undefined ? usual : [given]) {
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes === undefined) continue;
    const { auths = {} } = parseJson(bytes, authSchema, path, 'bundle/source');
    const names = [repository, registry, ...(registry === 'docker.io' ? ['https://index.docker.io/v1/'] : [])];
    for (let name = repository; name.includes('/'); name = name.slice(0, name.lastIndexOf('/'))) names.push(name);
    names.sort((a, b) => b.length - a.length);
    const found = names.flatMap((name) => auths[name]?.auth ?? []);
    if (found[0] !== undefined) return found[0];
  }
  return undefined;
}

/** containers-certs.d(5). Undefined: those of the system. */
async function certificatesOf(registry: string): Promise<string[] | undefined> {
  const found: string[] = [];
  for (const folder of [
    '/etc/containers/certs.d',
    '/etc/docker/certs.d',
    join(homedir(), '.config/containers/certs.d'),
  ]) {
    for (const name of await readdir(join(folder, registry)).catch(() => [])) {
      if (name.endsWith('.crt')) found.push(await readFile(join(folder, registry, name), 'utf8'));
    }
  }
  return found.length === 0 ? undefined : found;
}
