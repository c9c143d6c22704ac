import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Catalog, CatalogEntry } from '../domain/catalog.ts';
import { type Digest, isDigest } from '../domain/digest.ts';
import { mirrorPathOf } from '../domain/mirror-path.ts';
import type { LayerStore, TransferMeter } from '../engine/ports.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Log } from '../platform/log.ts';
import { readManifest } from './manifest.ts';
import { createMeter, type MeteredTransfer } from './meter.ts';
import { parseRange } from './range.ts';
import { respondError } from './respond.ts';
import { parseRoute, type Route } from './route.ts';
import { type TransferDependencies, transfer } from './transfer.ts';

/** What the registry is made of. */
export interface RegistryOptions extends Omit<TransferDependencies, 'onWait'> {
  /** 32 hex digits that every path but the ping carries. */
  readonly token: string;
  /** Whether a connection may be served at all; asked once for each. */
  readonly admit: (socket: Socket) => Promise<boolean>;
  readonly log: Log;
  /** Where layers are kept while they pass by; default none are. */
  readonly layers?: Pick<LayerStore, 'begin'>;
}

/** Where the registry listens: an inherited socket (systemd's fd 3), or an address; port 0 takes any free one. */
export type ListenTarget = { readonly fd: number } | { readonly host: string; readonly port: number };

/** The read-only registry from which the runtime pulls (OCI distribution-spec 1.1, pull). */
export interface Registry {
  readonly meter: TransferMeter;
  /** Replaces what may be served; manifests in `withheld` are answered 404, so that the runtime looks for them elsewhere. */
  setCatalog(catalog: Catalog, withheld?: ReadonlySet<Digest>): void;
  /** Starts to listen and returns its authority, as `127.0.0.1:5317`. @throws AppError `registry/listen` (`fatal`) */
  listen(target: ListenTarget): Promise<string>;
  /** Stops listening and drops every connection. */
  close(): Promise<void>;
}

/** A registry that serves nothing yet. */
export function createRegistry(options: RegistryOptions): Registry {
  const meter = createMeter();
  const admissions = new WeakMap<Socket, Promise<boolean>>();
  let catalog: Catalog = new Map();
  let withheld: ReadonlySet<Digest> = new Set();
  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      options.log.warn({ err: error }, 'Registry: a request failed');
      response.destroy();
    });
  });
  server.requestTimeout = 0; // a blob may wait for its medium for longer than any fixed limit

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    const admission = admissions.get(socket) ?? options.admit(socket);
    admissions.set(socket, admission);
    if (!(await admission)) {
      respondError(response, 403, 'DENIED', 'only the container runtime of this node may pull here');
      return;
    }
    response.setHeader('docker-distribution-api-version', 'registry/2.0');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      respondError(response, 405, 'UNSUPPORTED', 'this registry is read-only');
      return;
    }
    await answer(request, response);
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = parseRoute(request.url ?? '', options.token);
    if (route.kind === 'ping') {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 2 }).end('{}');
      return;
    }
    const entry = route.kind === 'unknown' ? undefined : catalog.get(route.repository);
    if (route.kind === 'unknown' || entry === undefined) {
      respondError(response, 404, 'NAME_UNKNOWN', 'nothing is mirrored under this name');
      return;
    }
    if (route.kind === 'blob') {
      await sendBlob(route, entry, request, response);
      return;
    }
    meter.manifestRequested(route.repository, route.reference);
    const digest = isDigest(route.reference) ? route.reference : entry.tags.get(route.reference);
    await sendManifest(digest, route, request, response);
  }

  /** By digest only: tags are also asked for to look whether there are signatures. */
  function noteUnknown(route: Route): void {
    if (route.kind === 'blob') meter.unknownRequested(route.repository, route.digest);
    if (route.kind === 'manifest' && isDigest(route.reference))
      meter.unknownRequested(route.repository, route.reference);
  }

  async function sendManifest(
    digest: Digest | undefined,
    route: Route,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    const signal = closeSignal(response);
    const isOffered = digest !== undefined && !withheld.has(digest);
    const manifest = isOffered ? await readManifest(options.source, digest, signal) : undefined;
    if (digest === undefined || manifest === undefined) {
      noteUnknown(route);
      respondError(response, 404, 'MANIFEST_UNKNOWN', `manifest ${digest ?? request.url} is on no plugged medium`);
      return;
    }
    response.writeHead(200, {
      'content-type': manifest.mediaType,
      'content-length': manifest.bytes.length,
      'docker-content-digest': digest,
    });
    response.end(request.method === 'HEAD' ? undefined : manifest.bytes);
  }

  async function sendBlob(
    route: Extract<Route, { kind: 'blob' }>,
    entry: CatalogEntry,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { digest } = route;
    const signal = closeSignal(response);
    // A layer of an adopted bundle whose medium was just pulled is promised all the same: its transfer waits.
    const sizeBytes = (await options.source.sizeOf(digest, signal)) ?? entry.layers.get(digest);
    if (sizeBytes === undefined) {
      noteUnknown(route);
      respondError(response, 404, 'BLOB_UNKNOWN', `blob ${digest} is on no plugged medium`);
      return;
    }
    // RFC 9110, section 14.2: a Range counts for GET only.
    const range = parseRange(request.method === 'GET' ? request.headers.range : undefined, sizeBytes);
    if (range.kind === 'unsatisfiable') {
      response.writeHead(416, { 'content-range': `bytes */${sizeBytes}`, 'content-length': 0 }).end();
      return;
    }
    const firstByte = range.kind === 'part' ? range.first : 0;
    const lastByte = range.kind === 'part' ? range.last : sizeBytes - 1;
    if (range.kind === 'part') response.setHeader('content-range', `bytes ${firstByte}-${lastByte}/${sizeBytes}`);
    response.writeHead(range.kind === 'part' ? 206 : 200, {
      'accept-ranges': 'bytes',
      'content-type': 'application/octet-stream',
      'content-length': lastByte - firstByte + 1,
      'docker-content-digest': digest,
    });
    if (request.method === 'HEAD') response.end();
    else await stream({ digest, firstByte, lastByte, sizeBytes }, response, signal);
  }

  /** Sends at the pace of the client. A source that is gone for good ends the connection, so that the runtime sees a broken transfer. */
  async function stream(
    range: { digest: Digest; firstByte: number; lastByte: number; sizeBytes: number },
    response: ServerResponse,
    signal: AbortSignal,
  ) {
    let position = range.firstByte;
    const kept = await options.layers?.begin(range.digest, range.sizeBytes, position);
    const metered = meter.open(range.digest);
    try {
      for await (const chunk of transfer(range, { ...options, onWait: metered.awaitsMedium }, signal)) {
        position += chunk.length;
        metered.sent(chunk.length, position);
        const written = kept?.write(chunk);
        if (!response.write(chunk)) await drained(response, metered, signal);
        await written;
      }
      response.end();
    } catch (error) {
      response.destroy();
      if (!signal.aborted) options.log.warn({ digest: range.digest, err: error }, brokenTransfer(range.digest, error));
    } finally {
      metered.close();
      await kept?.close();
    }
  }

  return {
    meter,
    setCatalog: (next, kept = new Set()) => {
      withheld = kept;
      catalog = new Map([...next].map(([repository, entry]) => [mirrorPathOf(repository), entry]));
    },
    listen: (target) => listen(server, target),
    close: async () => {
      server.closeAllConnections();
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}

async function drained(response: ServerResponse, metered: MeteredTransfer, signal: AbortSignal): Promise<void> {
  metered.awaitsRuntime(1);
  try {
    await once(response, 'drain', { signal });
  } finally {
    metered.awaitsRuntime(-1);
  }
}

function brokenTransfer(digest: Digest, error: unknown): string {
  return `Registry: ${digest} broke off: ${reasonOf(error)}`;
}

/** Aborts when the response's connection closes, whether it was finished or not; at once when it is closed already. */
function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // A client that left while it was being admitted closed it before anybody listened.
  if (response.destroyed) controller.abort();
  else response.once('close', () => controller.abort());
  return controller.signal;
}

async function listen(server: Server, target: ListenTarget): Promise<string> {
  try {
    const listening = once(server, 'listening');
    server.listen(target);
    await listening;
  } catch (error) {
    const where = 'fd' in target ? `inherited socket ${target.fd}` : `${target.host}:${target.port}`;
    throw new AppError({
      code: 'registry/listen',
      message: `the registry can't listen on ${where}: ${reasonOf(error)}; free the port or set registry.listen`,
      disposition: 'fatal',
      cause: error,
    });
  }
  const address = server.address();
  return typeof address === 'object' && address !== null ? `${address.address}:${address.port}` : String(address);
}
