import type { IncomingMessage } from 'node:http';
import * as v from 'valibot';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { linkSignals, withDeadline } from '../../platform/async/abort.ts';
import { HttpClient, wholeBody } from '../../platform/http-client.ts';
import { type JsonEntry, jsonEntries, listOnly } from '../../platform/json-entries.ts';
import { GRPC_NOT_FOUND, toRuntimeError } from '../cri/runtime-error.ts';
import {
  API_VERSION,
  change,
  container,
  containerDetails,
  createdAnswer,
  type EngineContainer,
  type EngineContainerDetails,
  type EngineImage,
  type EngineImageDetails,
  type EngineInfo,
  image,
  imageDetails,
  info,
  MAX_TEXT,
  progress,
  UNREAD,
  versionAnswer,
} from './engine-answers.ts';

const TIMEOUT_MS = 10_000;
/** The limit of an answer about one object, as for CRI. */
const MAX_BYTES = 16 * 1024 * 1024;
/** The limit of an image or a container in a list, and of an event: labels make them large. */
const MAX_ENTRY_BYTES = 4 * 1024 * 1024;
/** The limit of images, and of containers. Only the used members of each are kept. */
const MAX_ENTRIES = 100_000;
/** The most unreadable entries of a list that are named. */
const MAX_NAMED = 100;

/** The version of Podman's native API. */
const LIBPOD_VERSION = '4.0.0';

interface Engine {
  /** `docker 26.1.5` or `podman 5.4.2`. */
  readonly name: string;
  readonly isPodman: boolean;
  readonly apiVersion: string;
}

interface EngineCall {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The path after the version of the API. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  /** Subject of an error message. Default: method, path and socket. */
  readonly what?: string;
}

/** It has what `toRuntimeError` needs: a gRPC code and the text that the engine sent. */
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
  private readonly http: HttpClient;
  private engine: Engine | undefined;

  /**
   * `timeoutMs`: of each call, default 10 s. `onLeftOut`: called with the images and containers
   * that could not be read, by their names. The others are used.
   */
  constructor(
    readonly socketPath: string,
    private readonly timeoutMs = TIMEOUT_MS,
    private readonly onLeftOut: (names: readonly string[]) => void = () => undefined,
  ) {
    this.http = new HttpClient({ socketPath });
  }

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
    return this.list('/images/json', image, signal);
  }

  /** Returns undefined when there is none. */
  imageDetails(name: string, signal: AbortSignal): Promise<EngineImageDetails | undefined> {
    return this.get(`/images/${encodeURIComponent(name)}/json`, v.optional(imageDetails), signal);
  }

  /** Lists containers in any state. {@link UNREAD} is among them when some could not be read. */
  containers(
    signal: AbortSignal,
    filters: Readonly<Record<string, readonly string[]>> = {},
  ): Promise<EngineContainer[]> {
    const query = { all: '1', filters: JSON.stringify(filters) };
    return this.list('/containers/json', container, signal, query, [UNREAD]);
  }

  /** Returns undefined when there is none. */
  async containerDetails(id: string, signal: AbortSignal): Promise<EngineContainerDetails | 'unread' | undefined> {
    if (id === UNREAD.Id) return 'unread';
    const path = `/containers/${encodeURIComponent(id)}/json`;
    const read = (inner: AbortSignal) => this.get(path, v.optional(containerDetails), inner);
    return this.readable(`container ${id}`, signal, read, 'unread');
  }

  /**
   * @param otherwise in place of what could not be read
   * @throws AppError `runtime/unreachable`; an abort
   */
  async readable<T, Otherwise>(
    what: string,
    signal: AbortSignal,
    read: (signal: AbortSignal) => Promise<T>,
    otherwise: Otherwise,
  ): Promise<T | Otherwise> {
    try {
      return await read(signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AppError && error.code === 'runtime/unreachable') throw error;
      this.onLeftOut([what]);
      return otherwise;
    }
  }

  async createContainer(name: string, body: object, signal: AbortSignal): Promise<void> {
    const call = { method: 'POST', path: '/containers/create', query: { name }, body } as const;
    await this.versioned(call, createdAnswer, signal);
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

  /** The last name removes the image, but not while a container uses it. */
  async removeName(name: string, signal: AbortSignal): Promise<void> {
    const path = `/images/${encodeURIComponent(name)}`;
    await this.versioned({ method: 'DELETE', path, what: `Removal of ${name}` }, v.unknown(), signal);
  }

  /** `reference` begins with our registry. It has no deadline. */
  async pull(reference: string, what: string, signal: AbortSignal): Promise<void> {
    const { isPodman } = await this.known(signal);
    // Only Podman's native call pulls over HTTP without a setting of the node
    // (docs/runtime-facts.md, fact 52).
    const call: EngineCall = isPodman
      ? { method: 'POST', path: '/libpod/images/pull', query: { reference, tlsVerify: 'false', quiet: 'true' }, what }
      : { method: 'POST', path: '/images/create', query: { fromImage: reference }, what };
    try {
      for await (const { error } of this.stream(call, progress, signal)) {
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

  /** Yields changes until the engine ends. @param onOpen called when the stream is open */
  async *changes(onOpen: () => void, signal: AbortSignal): AsyncGenerator<v.InferOutput<typeof change>> {
    const query = { filters: JSON.stringify({ type: ['container', 'image'] }) };
    yield* this.stream({ method: 'GET', path: '/events', query }, change, signal, onOpen);
  }

  /** Entries that can't be read are named, and `inPlace` is listed in place of them all. */
  private async list<const Schema extends v.GenericSchema>(
    path: string,
    schema: Schema,
    signal: AbortSignal,
    query: Readonly<Record<string, string>> = {},
    inPlace: readonly v.InferOutput<Schema>[] = [],
  ): Promise<v.InferOutput<Schema>[]> {
    const call: EngineCall = { method: 'GET', path: await this.pathOf(path, signal), query };
    const kind = path.startsWith('/images') ? 'image' : 'container';
    const leftOut: string[] = [];
    const found = await this.called(call, signal, async (response) => {
      const items: v.InferOutput<Schema>[] = [];
      for await (const entry of jsonEntries(listOnly(await accepted(response)), MAX_ENTRY_BYTES)) {
        const read = items.length < MAX_ENTRIES ? outputOf(schema, entry) : undefined;
        if (read !== undefined) items.push(read);
        else if (leftOut.length < MAX_NAMED) leftOut.push(`${kind} ${nameIn(entry.bytes)}`);
      }
      return items;
    });
    if (leftOut.length === 0) return found;
    this.onLeftOut(leftOut);
    return [...found, ...inPlace];
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

  /** Returns undefined for 404, if the schema admits that. */
  private answer<const Schema extends v.GenericSchema>(
    call: EngineCall,
    schema: Schema,
    signal: AbortSignal,
    read: (body: string) => unknown = JSON.parse,
  ): Promise<v.InferOutput<Schema>> {
    return this.called(call, signal, async (response) => {
      const body = await textOf(response);
      const { statusCode = 0 } = response;
      if (statusCode === 404 && v.is(schema, undefined)) return undefined;
      if (statusCode >= 300) throw refusal(statusCode, body);
      return v.parse(schema, body.trim() === '' ? null : read(body));
    });
  }

  private async called<T>(
    call: EngineCall,
    signal: AbortSignal,
    read: (response: IncomingMessage) => Promise<T>,
  ): Promise<T> {
    const { what = `${call.method} ${call.path} on ${this.socketPath}` } = call;
    try {
      return await withDeadline('The engine', this.timeoutMs, signal, async (inner) =>
        read(await this.send(call, inner)),
      );
    } catch (error) {
      throw toRuntimeError(asRefusal(error), what, signal);
    }
  }

  /** Unreadable entries are left out. The errors are in the form for `toRuntimeError`. */
  private async *stream<const Schema extends v.GenericSchema>(
    call: EngineCall,
    schema: Schema,
    signal: AbortSignal,
    onOpen?: () => void,
  ): AsyncGenerator<v.InferOutput<Schema>> {
    const path = await this.pathOf(call.path, signal);
    try {
      const response = await accepted(await this.send({ ...call, path }, signal));
      onOpen?.();
      for await (const entry of jsonEntries(response, MAX_ENTRY_BYTES)) {
        const read = outputOf(schema, entry);
        if (read !== undefined) yield read;
      }
    } catch (error) {
      throw asRefusal(error);
    }
  }

  private async send({ method, path, query = {}, body }: EngineCall, signal: AbortSignal): Promise<IncomingMessage> {
    const search = new URLSearchParams(query).toString();
    const url = `http://localhost${path}${search === '' ? '' : `?${search}`}`;
    const payload = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const { signal: either, release } = linkSignals([signal, this.closed]);
    try {
      const response = await this.http.open({ url, method, ...payload }, either);
      response.once('close', release);
      return response;
    } catch (error) {
      release();
      throw error;
    }
  }
}

async function accepted(response: IncomingMessage): Promise<IncomingMessage> {
  const { statusCode = 0 } = response;
  if (statusCode >= 300) throw refusal(statusCode, await textOf(response));
  return response;
}

async function textOf(response: IncomingMessage): Promise<string> {
  return (await wholeBody(response, MAX_BYTES, (why) => new EngineRefusal(GRPC_UNKNOWN, why))).toString();
}

/** Returns undefined when it can't be read. */
function outputOf<const Schema extends v.GenericSchema>(
  schema: Schema,
  { bytes, isWhole }: JsonEntry,
): v.InferOutput<Schema> | undefined {
  try {
    return isWhole ? v.parse(schema, JSON.parse(bytes.toString())) : undefined;
  } catch {
    return undefined;
  }
}

/** The id and the first name of an image or container, from the beginning of its entry. */
function nameIn(entry: Buffer): string {
  const text = entry.subarray(0, MAX_TEXT).toString();
  const [, id = 'without an id'] = /"Id":\s*"([\w:]{1,100})"/.exec(text) ?? [];
  const [, name] = /"(?:Names|RepoTags)":\s*\[\s*"([^"\\]{1,300})"/.exec(text) ?? [];
  return name === undefined ? id : `${name.replace(/^\//, '')} (${id})`;
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
  const isForeign = error instanceof AppError && error.code !== 'platform/deadline';
  if (isForeign || systemCodeOf(error) === undefined) return error;
  return new EngineRefusal(GRPC_UNAVAILABLE, reasonOf(error));
}

/** The later one of two versions of the API. */
function later(one: string, other: string): string {
  const [major = 0, minor = 0] = one.split('.').map(Number);
  const [otherMajor = 0, otherMinor = 0] = other.split('.').map(Number);
  return major > otherMajor || (major === otherMajor && minor >= otherMinor) ? one : other;
}
