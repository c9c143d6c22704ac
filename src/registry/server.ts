import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Arriving, Catalog, CatalogEntry } from '../domain/decide/catalog.ts';
import { mirrorPathOf } from '../domain/model/reference.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import type { MirrorProbes, TransferMeter } from '../ports/transfers.ts';
import type { PullApiOptions } from './answers.ts';
import type { Offer } from './blob-union.ts';
import { type Admit, ConnectionLimiter } from './connection-limiter.ts';
import { Meter } from './meter.ts';
import { Probes } from './probes.ts';
import { createPullApi } from './pull-api.ts';
import { respondError } from './route.ts';

export interface RegistryOptions extends Omit<PullApiOptions, 'find' | 'firstOffers' | 'meter' | 'probes'> {
  readonly admit: Admit;
  /** Used after a client has closed its sending half. Default: always open. */
  readonly isOpen?: (socket: Socket) => Promise<boolean>;
  /** Requests wait for the first catalog, some seconds at most. Default: no. */
  readonly waitsForOffers?: boolean;
}

/** An inherited socket (fd 3 of systemd), or an address. Port 0 selects a free port. */
export type ListenTarget = { readonly fd: number } | { readonly host: string; readonly port: number };

/** Read-only (OCI distribution-spec 1.1, pull). */
export interface Registry {
  readonly meter: TransferMeter;
  readonly probes: MirrorProbes;
  /** Replaces the offers. Manifests are answered as `manifestAnswer` says. */
  setCatalog(catalog: Catalog, arriving?: Arriving): void;
  setOffers(find: PullApiOptions['find']): void;
  /** Returns host and port. @throws AppError `registry/listen` (`fatal`) */
  listen(target: ListenTarget): Promise<string>;
  /** Drops every connection. */
  close(): Promise<void>;
}

/** Until a request is complete. Runtimes send some hundred bytes of headers at once. */
const HTTP_LIMITS: ServerOptions = {
  maxHeaderSize: 8 * 1024,
  headersTimeout: 10_000,
  /** Only for the request. A response may wait for its medium longer than any fixed limit. */
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
};

/** How often a client is checked that has closed its sending half. */
const OPEN_CHECK_MS = 1_000;

const NOTHING_ARRIVES: Arriving = { images: new Set(), layers: new Map() };

function offerOf({ tags, images }: CatalogEntry, { images: arriving, layers }: Arriving): Offer {
  return { tags, layers, waitsForAll: false, images: { references: images, arriving } };
}

export function createRegistry(options: RegistryOptions): Registry {
  const meter = new Meter();
  const probes = new Probes();
  let find: PullApiOptions['find'] = () => undefined;
  const known = new AbortController();
  const firstOffers = options.waitsForOffers === true ? known.signal : undefined;
  const answer = createPullApi({
    ...options,
    ...(firstOffers && { firstOffers }),
    meter,
    probes,
    find: (path, namespace) => find(path, namespace),
  });
  const server = createServer(HTTP_LIMITS, (request, response) => {
    void serve(request, response, answer).catch((error: unknown) => {
      if (!response.destroyed) options.log.warn({ err: error }, `Registry: a request failed: ${reasonOf(error)}`);
      response.destroy();
    });
    void watchClient(request.socket, response, options).catch(() => undefined);
  });
  const limiter = guard(server, options.admit);

  return {
    meter,
    probes,
    setCatalog: (next, arriving = NOTHING_ARRIVES) => {
      const offers = new Map([...next].map(([repository, entry]) => [mirrorPathOf(repository), entry]));
      find = (path) => {
        const entry = offers.get(path);
        return entry && offerOf(entry, arriving);
      };
      known.abort();
    },
    setOffers: (next) => {
      find = next;
    },
    listen: (target) => listen(server, target),
    close: async () => {
      limiter.close();
      server.closeAllConnections();
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}

/** Nothing is read before. Clients may close their sending half after their request. */
function guard(server: Server, admit: Admit): ConnectionLimiter {
  // createServer() of node:http has no options for these.
  Object.assign(server, { pauseOnConnect: true, httpAllowHalfOpen: true });
  const serveHttp = server.listeners('connection');
  server.removeAllListeners('connection');
  const enter = (socket: Socket) => {
    for (const listener of serveHttp) listener.call(server, socket);
    socket.resume();
  };
  const limiter = new ConnectionLimiter(admit, enter);
  server.on('connection', (socket) => void limiter.accept(socket));
  return limiter;
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  answer: ReturnType<typeof createPullApi>,
): Promise<void> {
  response.setHeader('docker-distribution-api-version', 'registry/2.0');
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    respondError(response, 405, { code: 'UNSUPPORTED', message: 'this registry is read-only' });
    return;
  }
  await answer({ request, response });
}

/** While nothing is sent, a closed sending half and a closed connection look the same. */
async function watchClient(
  socket: Socket,
  response: ServerResponse,
  { clock, isOpen }: RegistryOptions,
): Promise<void> {
  if (isOpen === undefined) return;
  const over = new AbortController();
  response.once('close', () => over.abort());
  if (!socket.readableEnded) await once(socket, 'end', { signal: over.signal });
  while (!over.signal.aborted) {
    if (!(await isOpen(socket))) socket.destroy();
    await clock.sleep(OPEN_CHECK_MS, over.signal);
  }
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
      message: `the registry can't listen on ${where}: ${reasonOf(error)}; ${remedyOf(error)}`,
      disposition: 'fatal',
      cause: error,
    });
  }
  const address = server.address();
  if (typeof address !== 'object' || address === null) return String(address);
  return `${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

/** The service may open no network socket itself (`RestrictAddressFamilies=`, systemd.exec(5)). */
function remedyOf(error: unknown): string {
  return systemCodeOf(error) === 'EAFNOSUPPORT'
    ? 'systemd must open the socket: see systemctl status stickpin-registry.socket, then unmask or start it'
    : 'free the port or set registry.listen';
}
