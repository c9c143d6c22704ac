import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { digestOf, type SampleBlob, type SampleImage } from './bundles/sample-image.ts';

/**
 * One request as the registry saw it. `bytesSent` counts body bytes and grows while the body is
 * sent.
 */
interface RequestRecord {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The digest asked for, or the digest that a tag named; absent for `/v2/` and unknown names. */
  readonly digest?: string;
  readonly kind: 'ping' | 'manifest' | 'blob' | 'other';
  /** The request's Range header, as `bytes=100-`. */
  readonly range?: string;
  readonly userAgent?: string;
  bytesSent: number;
}

/**
 * What goes wrong with a blob or a manifest. `atByte` is an offset in the whole content; a ranged
 * request that begins behind it is not hit. `times` is how many requests are hit (default: break 1,
 * the others all).
 */
type Fault =
  | { readonly kind: 'break'; readonly atByte: number; readonly times?: number }
  | { readonly kind: 'corrupt'; readonly atByte: number; readonly times?: number }
  | { readonly kind: 'stall'; readonly atByte: number; readonly times?: number }
  | { readonly kind: 'status'; readonly status: number; readonly times?: number };

/** A plain HTTP registry on loopback that serves generated images and can misbehave on purpose. */
export interface SourceRegistry {
  /** `127.0.0.1:<port>`, as a reference or a mirror's location begins. */
  readonly host: string;
  /** Every request since the start or the last `forget()`, in order of arrival. */
  readonly requests: readonly RequestRecord[];
  /**
   * Puts an image under `repository`, by digest and under each tag. A tag that exists moves.
   * Content is checked by nobody.
   */
  add(repository: string, image: SampleImage, tags?: readonly string[]): void;
  /**
   * {@link add} under a reference with a tag, as `quay.example.com/app/web:1`; the host does not
   * count.
   */
  publish(...images: readonly { readonly reference: string; readonly image: SampleImage }[]): void;
  /**
   * From now on it answers the referrers API (distribution-spec 1.1), by the `subject` of
   * manifests.
   */
  listReferrers(): void;
  /** Takes a blob or manifest away from every repository: it answers 404 from now on. */
  drop(digest: string): void;
  /** From now on requests for the digest meet the fault. A digest has one fault at a time. */
  breakDown(digest: string, fault: Fault): void;
  /** Takes the digest's fault away and lets requests go on that are stalled in it. */
  mend(digest: string): void;
  /** How often the digest was asked for with GET. */
  getCount(digest: string): number;
  /** Body bytes sent in total, or for one digest. */
  bytesSent(digest?: string): number;
  /** Empties `requests`. */
  forget(): void;
  /** Breaks every open connection and stops listening. Safe to call twice. */
  close(): Promise<void>;
}

interface State {
  readonly repositories: Map<string, { blobs: Map<string, SampleBlob>; tags: Map<string, string> }>;
  readonly faults: Map<string, { fault: Fault; left: number; mended: Promise<void>; mend: () => void }>;
  readonly requests: RequestRecord[];
  listsReferrers: boolean;
}

const chunkBytes = 64 * 1024;

/**
 * Starts a registry (OCI distribution specification 1.1, pull only) on loopback.
 *
 * @param options.port default 0: any free port. A fixed one lets a registry come back where it was.
 * @param options.tls key and certificate in PEM: it speaks HTTPS then.
 * @param options.login `user:password` that every request must have (RFC 7617).
 */
export async function startSourceRegistry(
  options: { port?: number; tls?: { key: string; cert: string }; login?: string } = {},
): Promise<SourceRegistry> {
  const state: State = { repositories: new Map(), faults: new Map(), requests: [], listsReferrers: false };
  const wanted = options.login && `Basic ${Buffer.from(options.login).toString('base64')}`;
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    if (wanted !== undefined && request.headers.authorization !== wanted) return refuseStranger(response);
    return void answer(state, request, response).catch(() => response.destroy());
  };
  const server = options.tls === undefined ? createServer(onRequest) : createTlsServer(options.tls, onRequest);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    ...content(state),
    ...faults(state),
    ...counters(state),
    listReferrers: () => {
      state.listsReferrers = true;
    },
    host: `127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function content({ repositories }: State): Pick<SourceRegistry, 'add' | 'publish' | 'drop'> {
  const add: SourceRegistry['add'] = (name, image, tags = []) => {
    const repository = repositories.get(name) ?? { blobs: new Map(), tags: new Map() };
    repositories.set(name, repository);
    for (const part of image.blobs) repository.blobs.set(part.digest, part);
    for (const tag of tags) repository.tags.set(tag, image.top.digest);
  };
  return {
    add,
    publish: (...images) => {
      for (const { reference, image } of images) {
        const [path = '', tag = ''] = reference.slice(reference.indexOf('/') + 1).split(':');
        add(path, image, [tag]);
      }
    },
    drop: (digest) => {
      for (const repository of repositories.values()) repository.blobs.delete(digest);
    },
  };
}

function faults(state: State): Pick<SourceRegistry, 'breakDown' | 'mend'> {
  const mend = (digest: string) => {
    state.faults.get(digest)?.mend();
    state.faults.delete(digest);
  };
  return {
    mend,
    breakDown: (digest, fault) => {
      mend(digest);
      const left = fault.times ?? (fault.kind === 'break' ? 1 : Number.POSITIVE_INFINITY);
      const { promise, resolve } = deferred();
      state.faults.set(digest, { fault, left, mended: promise, mend: resolve });
    },
  };
}

function counters({ requests }: State): Pick<SourceRegistry, 'requests' | 'getCount' | 'bytesSent' | 'forget'> {
  const of = (digest?: string) => requests.filter((record) => digest === undefined || record.digest === digest);
  return {
    requests,
    getCount: (digest) => of(digest).filter((record) => record.method === 'GET').length,
    bytesSent: (digest) => of(digest).reduce((sum, record) => sum + record.bytesSent, 0),
    forget: () => requests.splice(0),
  };
}

async function answer(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '/').split('?')[0] ?? '/';
  const found = find(state, path);
  const fault = found.part && takeFault(state, found.part.digest);
  const start = found.kind === 'blob' ? rangeStart(request.headers.range) : 0;
  const status =
    fault?.fault.kind === 'status' ? fault.fault.status : found.part ? (start > 0 ? 206 : 200) : found.status;
  const record: RequestRecord = {
    method: request.method ?? 'GET',
    path,
    status,
    kind: found.kind,
    bytesSent: 0,
    ...(found.part && { digest: found.part.digest }),
    ...(request.headers.range && { range: request.headers.range }),
    ...(request.headers['user-agent'] && { userAgent: request.headers['user-agent'] }),
  };
  state.requests.push(record);
  if (fault?.fault.kind === 'status') fault.left -= 1;
  if (!found.part || status >= 400) return refuse(response, status, found.kind);
  const { part } = found;
  response.writeHead(status, {
    'Content-Type': found.kind === 'blob' ? 'application/octet-stream' : part.mediaType,
    'Content-Length': part.sizeBytes - start,
    'Docker-Content-Digest': part.digest,
    'Accept-Ranges': 'bytes',
    ...(status === 206 && { 'Content-Range': `bytes ${start}-${part.sizeBytes - 1}/${part.sizeBytes}` }),
  });
  if (request.method === 'HEAD') return void response.end();
  await sendBody(response, part.bytes, start, record, fault);
}

interface Found {
  readonly kind: RequestRecord['kind'];
  readonly status: number;
  readonly part?: SampleBlob;
}

function find({ repositories, listsReferrers }: State, path: string): Found {
  if (path === '/v2/' || path === '/v2') return { kind: 'ping', status: 200 };
  const [, of = '', subject] = /^\/v2\/(.+)\/referrers\/([^/]+)$/.exec(path) ?? [];
  if (listsReferrers && subject !== undefined) {
    return { kind: 'other', status: 200, part: referrersOf(subject, repositories.get(of)?.blobs.values() ?? []) };
  }
  const match = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path);
  const [, name = '', what, reference = ''] = match ?? [];
  if (what === undefined) return { kind: 'other', status: 404 };
  const kind = what === 'blobs' ? 'blob' : 'manifest';
  const repository = repositories.get(name);
  const digest = reference.includes(':') ? reference : repository?.tags.get(reference);
  const part = digest === undefined ? undefined : repository?.blobs.get(digest);
  return part ? { kind, status: 200, part } : { kind, status: 404 };
}

function referrersOf(subject: string, blobs: Iterable<SampleBlob>): SampleBlob {
  const manifests = [...blobs].flatMap(({ mediaType, digest, sizeBytes, bytes }) => {
    if (!mediaType.endsWith('manifest.v1+json')) return [];
    const { artifactType, annotations, subject: of } = JSON.parse(bytes.toString());
    return of?.digest === subject ? [{ mediaType, digest, size: sizeBytes, artifactType, annotations }] : [];
  });
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
  return { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes };
}

function takeFault(state: State, digest: string) {
  const entry = state.faults.get(digest);
  if (entry === undefined || entry.left <= 0) return undefined;
  return entry;
}

function rangeStart(range: string | undefined): number {
  return Number(/^bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0);
}

function refuseStranger(response: ServerResponse): void {
  response.writeHead(401, { 'Content-Type': 'application/json', 'WWW-Authenticate': 'Basic realm="source"' });
  response.end(JSON.stringify({ errors: [{ code: 'UNAUTHORIZED', message: 'authentication required' }] }));
}

/** Errors as the distribution specification words them ("Error Codes"). */
function refuse(response: ServerResponse, status: number, kind: RequestRecord['kind']): void {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  const unknown = {
    manifest: { code: 'MANIFEST_UNKNOWN', message: 'manifest unknown' },
    blob: { code: 'BLOB_UNKNOWN', message: 'blob unknown to registry' },
    ping: undefined,
    other: undefined,
  }[kind];
  const error = (status === 404 ? unknown : undefined) ?? { code: 'UNKNOWN', message: `status ${status}` };
  response.end(status >= 400 ? JSON.stringify({ errors: [error] }) : '{}');
}

async function sendBody(
  response: ServerResponse,
  bytes: Buffer,
  start: number,
  record: RequestRecord,
  entry: ReturnType<typeof takeFault>,
): Promise<void> {
  const fault = entry?.fault;
  const at = fault && 'atByte' in fault && fault.atByte >= start ? fault.atByte : undefined;
  if (entry && at !== undefined) entry.left -= 1;
  const stop = at !== undefined && fault?.kind !== 'corrupt' ? at : bytes.length;
  let body = bytes;
  if (fault?.kind === 'corrupt' && at !== undefined) {
    body = Buffer.from(bytes);
    body[at] = (body[at] ?? 0) ^ 0xff;
  }
  await sendSlice(response, body.subarray(start, stop), record);
  if (fault?.kind === 'break' && at !== undefined) return void response.socket?.destroySoon();
  if (fault?.kind === 'stall' && at !== undefined) {
    response.flushHeaders();
    await Promise.race([entry?.mended, new Promise((resolve) => response.once('close', resolve))]);
    await sendSlice(response, body.subarray(stop), record);
  }
  response.end();
}

async function sendSlice(response: ServerResponse, bytes: Buffer, record: RequestRecord): Promise<void> {
  for (let at = 0; at < bytes.length && !response.destroyed; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    record.bytesSent += chunk.length;
    if (!response.write(chunk)) await drained(response);
  }
}

function drained(response: ServerResponse): Promise<void> {
  const { promise, resolve } = deferred();
  response.once('drain', resolve);
  response.once('close', resolve);
  return promise.finally(() => {
    response.off('drain', resolve);
    response.off('close', resolve);
  });
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
