import { request as httpRequest, type IncomingMessage } from 'node:http';
import * as v from 'valibot';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { linkSignals, withDeadline } from '../../platform/async/abort.ts';
import { responseTo } from '../../platform/http.ts';
import { GRPC_NOT_FOUND, toRuntimeError } from '../cri/runtime-error.ts';

const TIMEOUT_MS = 10_000;
/** Of an answer. The same as for CRI. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Of a line of a stream. */
const MAX_LINE = 64 * 1024;
const MAX_TEXT = 4_096;
/** Of images, and of containers. */
const MAX_ITEMS = 10_000;

/** The oldest version of the API that is used, that of Docker 20.10 and of Podman 4. */
const API_VERSION = '1.41';
/** Of Podman's own API. */
const LIBPOD_VERSION = '4.0.0';

const text = v.pipe(v.string(), v.maxLength(MAX_TEXT));
const texts = v.nullish(v.pipe(v.array(text), v.maxLength(MAX_ITEMS)), []);
const labels = v.nullish(v.record(text, v.string()), {});

const versionAnswer = v.object({
  Version: text,
  ApiVersion: v.pipe(v.string(), v.regex(/^\d{1,3}\.\d{1,3}$/)),
  MinAPIVersion: v.optional(v.pipe(v.string(), v.regex(/^\d{1,3}\.\d{1,3}$/)), API_VERSION),
  Components: v.nullish(v.pipe(v.array(v.object({ Name: text })), v.maxLength(100)), []),
});

const info = v.object({
  DockerRootDir: text,
  DriverStatus: v.nullish(v.pipe(v.array(v.array(v.string())), v.maxLength(100)), []),
});

const image = v.object({ Id: text, RepoTags: texts, RepoDigests: texts });

const imageDetails = v.object({
  ...image.entries,
  RootFS: v.nullish(v.object({ Layers: texts })),
  Config: v.nullish(v.object({ Volumes: v.nullish(v.record(text, v.unknown())) })),
});

const container = v.object({ Id: text, Names: texts, ImageID: text, State: text, Labels: labels });

/** Podman writes no `Type` of a mount that it does not know. */
const containerDetails = v.object({
  Id: text,
  Name: text,
  Image: text,
  RestartCount: v.optional(v.number(), 0),
  State: v.object({ Status: text, ExitCode: v.number(), StartedAt: text }),
  Config: v.object({ Image: text, Labels: labels }),
  Mounts: v.nullish(
    v.array(v.object({ Type: v.optional(text), Name: v.optional(text), Source: v.optional(text) })),
    [],
  ),
});

const change = v.object({ Type: text, Action: text });
const progress = v.object({ error: v.optional(v.string()) });

export type EngineInfo = v.InferOutput<typeof info>;
export type EngineImage = v.InferOutput<typeof image>;
export type EngineImageDetails = v.InferOutput<typeof imageDetails>;
export type EngineContainer = v.InferOutput<typeof container>;
export type EngineContainerDetails = v.InferOutput<typeof containerDetails>;

interface Engine {
  /** `docker 26.1.5` or `podman 5.4.2`. */
  readonly name: string;
  readonly isPodman: boolean;
  readonly apiVersion: string;
}

interface EngineCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** After the version of the API. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  /** Subject of an error message. Default: method, path and socket. */
  readonly what?: string;
}

/** For `toRuntimeError`: a gRPC code and the text that the engine sent. */
class EngineRefusal extends Error {
  constructor(
    readonly code: number,
    readonly details: string,
  ) {
    super(details);
  }
}

const GRPC_UNKNOWN = 2;
const GRPC_UNAVAILABLE = 14;

/** Docker's API, and Podman's, over their socket. Methods throw AppError with a `PullErrorCode`. */
export class EngineClient {
  private readonly end = new AbortController();
  private engine: Engine | undefined;

  /** `timeoutMs`: of each call, default 10 s. */
  constructor(
    readonly socketPath: string,
    private readonly timeoutMs = TIMEOUT_MS,
  ) {}

  /** `docker 26.1.5`. It also finds out which version of the API is used from now on. */
  async version(signal: AbortSignal): Promise<string> {
    const answer = await this.answer({ method: 'GET', path: '/version' }, versionAnswer, signal);
    const { Version, ApiVersion, MinAPIVersion, Components } = answer;
    const isPodman = Components.some(({ Name }) => Name === 'Podman Engine');
    const oldest = later(MinAPIVersion, API_VERSION);
    // The version check refuses an engine whose newest is older.
    const apiVersion = later(oldest, ApiVersion) === ApiVersion ? oldest : ApiVersion;
    this.engine = { name: `${isPodman ? 'podman' : 'docker'} ${Version}`, isPodman, apiVersion };
    return this.engine.name;
  }

  async status(signal: AbortSignal): Promise<void> {
    await this.answer({ method: 'GET', path: '/_ping' }, v.unknown(), signal, String);
  }

  info(signal: AbortSignal): Promise<EngineInfo> {
    return this.get('/info', info, signal);
  }

  async imageFilesystemPath(signal: AbortSignal): Promise<string> {
    return (await this.info(signal)).DockerRootDir;
  }

  listImages(signal: AbortSignal): Promise<EngineImage[]> {
    return this.get('/images/json', v.pipe(v.array(image), v.maxLength(MAX_ITEMS)), signal);
  }

  /** Undefined when there is none. */
  imageDetails(name: string, signal: AbortSignal): Promise<EngineImageDetails | undefined> {
    return this.get(`/images/${encodeURIComponent(name)}/json`, v.optional(imageDetails), signal);
  }

  /** In any state. */
  containers(
    signal: AbortSignal,
    filters: Readonly<Record<string, readonly string[]>> = {},
  ): Promise<EngineContainer[]> {
    const query = { all: '1', filters: JSON.stringify(filters) };
    return this.get('/containers/json', v.pipe(v.array(container), v.maxLength(MAX_ITEMS)), signal, query);
  }

  /** Undefined when there is none. */
  containerDetails(id: string, signal: AbortSignal): Promise<EngineContainerDetails | undefined> {
    return this.get(`/containers/${encodeURIComponent(id)}/json`, v.optional(containerDetails), signal);
  }

  async createContainer(name: string, body: object, signal: AbortSignal): Promise<void> {
    const call = { method: 'POST', path: '/containers/create', query: { name }, body } as const;
    await this.versioned(call, v.object({ Id: text }), signal);
  }

  /** A missing one is no error, a running one is. */
  async removeContainer(id: string, signal: AbortSignal, withVolumes = false): Promise<void> {
    const query = { v: withVolumes ? '1' : '0' };
    const path = `/containers/${encodeURIComponent(id)}`;
    await this.versioned({ method: 'DELETE', path, query, what: `Removal of container ${id}` }, v.unknown(), signal);
  }

  /** Moves the name. */
  async tag(id: string, repository: string, tag: string, signal: AbortSignal): Promise<boolean> {
    const path = `/images/${encodeURIComponent(id)}/tag`;
    const query = { repo: repository, tag };
    const call = { method: 'POST', path, query, what: `Tag ${repository}:${tag}` } as const;
    return (await this.versioned(call, v.unknown(), signal)) !== undefined;
  }

  /** Of an image, which goes with its last one, but not while a container uses it. */
  async removeName(name: string, signal: AbortSignal): Promise<void> {
    const path = `/images/${encodeURIComponent(name)}`;
    await this.versioned({ method: 'DELETE', path, what: `Removal of ${name}` }, v.unknown(), signal);
  }

  /** `reference` begins with our registry. No deadline. */
  async pull(reference: string, what: string, signal: AbortSignal): Promise<void> {
    const { isPodman } = await this.known(signal);
    // Only Podman's own call pulls over HTTP without a setting of the node (docs/runtime-facts.md,
    // fact 52).
    const call: EngineCall = isPodman
      ? { method: 'POST', path: '/libpod/images/pull', query: { reference, tlsVerify: 'false', quiet: 'true' }, what }
      : { method: 'POST', path: '/images/create', query: { fromImage: reference }, what };
    try {
      for await (const line of this.lines(call, signal)) {
        const { error } = v.parse(progress, JSON.parse(line));
        if (error !== undefined && error !== '') throw new EngineRefusal(GRPC_UNKNOWN, error);
      }
    } catch (error) {
      throw toRuntimeError(error, what, signal);
    }
  }

  /** Running calls fail. */
  close(): void {
    this.end.abort(new EngineRefusal(GRPC_UNAVAILABLE, 'the connection was closed'));
  }

  get closed(): AbortSignal {
    return this.end.signal;
  }

  /** Until the engine ends. @param onOpen called when they begin to come */
  async *changes(onOpen: () => void, signal: AbortSignal): AsyncGenerator<v.InferOutput<typeof change>> {
    const query = { filters: JSON.stringify({ type: ['container', 'image'] }) };
    for await (const line of this.lines({ method: 'GET', path: '/events', query }, signal, onOpen))
      yield v.parse(change, JSON.parse(line));
  }

  private async get<const Schema extends v.GenericSchema>(
    path: string,
    schema: Schema,
    signal: AbortSignal,
    query: Readonly<Record<string, string>> = {},
  ): Promise<v.InferOutput<Schema>> {
    return this.versioned({ method: 'GET', path, query }, schema, signal);
  }

  private async versioned<const Schema extends v.GenericSchema>(
    call: EngineCall,
    schema: Schema,
    signal: AbortSignal,
  ): Promise<v.InferOutput<Schema>> {
    const what = call.what ?? `${call.method} ${call.path} on ${this.socketPath}`;
    return this.answer({ ...call, what, path: await this.pathOf(call.path, signal) }, schema, signal);
  }

  private async pathOf(path: string, signal: AbortSignal): Promise<string> {
    const { apiVersion } = await this.known(signal);
    return `/v${path.startsWith('/libpod/') ? LIBPOD_VERSION : apiVersion}${path}`;
  }

  private async known(signal: AbortSignal): Promise<Engine> {
    if (this.engine === undefined) await this.version(signal);
    return this.engine as Engine;
  }

  /** Undefined for 404, if the schema admits that. */
  private async answer<const Schema extends v.GenericSchema>(
    call: EngineCall,
    schema: Schema,
    signal: AbortSignal,
    read: (body: string) => unknown = JSON.parse,
  ): Promise<v.InferOutput<Schema>> {
    const { what = `${call.method} ${call.path} on ${this.socketPath}` } = call;
    try {
      return await withDeadline('The engine', this.timeoutMs, signal, async (inner) => {
        const response = await this.send(call, inner);
        const body = await bodyOf(response);
        const { statusCode = 0 } = response;
        if (statusCode === 404 && v.is(schema, undefined)) return undefined;
        if (statusCode >= 300) throw refusal(statusCode, body);
        return v.parse(schema, body.trim() === '' ? null : read(body));
      });
    } catch (error) {
      throw toRuntimeError(asRefusal(error), what, signal);
    }
  }

  /** Lines of JSON, without empty ones. Throws as `toRuntimeError` expects it. */
  private async *lines(call: EngineCall, signal: AbortSignal, onOpen?: () => void): AsyncGenerator<string> {
    const path = await this.pathOf(call.path, signal);
    try {
      const response = await this.send({ ...call, path }, signal);
      if ((response.statusCode ?? 0) >= 300) throw refusal(response.statusCode ?? 0, await bodyOf(response));
      onOpen?.();
      let rest = '';
      response.setEncoding('utf8');
      for await (const chunk of response) {
        const parts = `${rest}${chunk}`.split('\n');
        rest = parts.pop() ?? '';
        if (rest.length > MAX_LINE) throw new EngineRefusal(GRPC_UNKNOWN, 'it sends lines that are too long');
        yield* parts.map((part) => part.trim()).filter((part) => part !== '');
      }
      if (rest.trim() !== '') yield rest;
    } catch (error) {
      throw asRefusal(error);
    }
  }

  private async send({ method, path, query = {}, body }: EngineCall, signal: AbortSignal): Promise<IncomingMessage> {
    const { socketPath } = this;
    const search = new URLSearchParams(query).toString();
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const headers = payload === undefined ? {} : { 'content-type': 'application/json' };
    const target = search === '' ? path : `${path}?${search}`;
    const { signal: either, release } = linkSignals([signal, this.closed]);
    const request = httpRequest({ socketPath, method, path: target, headers, agent: false, signal: either });
    request.once('close', release);
    request.end(payload);
    return responseTo(request, either);
  }
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new EngineRefusal(GRPC_UNKNOWN, `its answer is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function refusal(status: number, body: string): EngineRefusal {
  const details = (messageIn(body) ?? body).slice(0, MAX_TEXT).trim() || `HTTP status: ${status}`;
  return new EngineRefusal(status === 404 ? GRPC_NOT_FOUND : GRPC_UNKNOWN, details);
}

function messageIn(body: string): string | undefined {
  try {
    return v.parse(v.object({ message: v.string() }), JSON.parse(body)).message;
  } catch {
    return undefined; // text of something else
  }
}

/** The engine does not listen, ends, or hangs. */
function asRefusal(error: unknown): unknown {
  const isLate = error instanceof AppError && error.code === 'platform/deadline';
  if (!isLate && (error instanceof AppError || systemCodeOf(error) === undefined)) return error;
  return new EngineRefusal(GRPC_UNAVAILABLE, reasonOf(error));
}

/** Of two versions of the API. */
function later(one: string, other: string): string {
  const [major = 0, minor = 0] = one.split('.').map(Number);
  const [otherMajor = 0, otherMinor = 0] = other.split('.').map(Number);
  return major > otherMajor || (major === otherMajor && minor >= otherMinor) ? one : other;
}
