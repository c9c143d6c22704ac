import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Catalog } from '../domain/catalog.ts';
import type { Digest } from '../domain/digest.ts';
import { mirrorPathOf } from '../domain/mirror-path.ts';
import type { TransferMeter } from '../engine/ports.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { createMeter } from './meter.ts';
import { createPullApi, type PullApiOptions } from './pull-api.ts';
import { respondError } from './respond.ts';

/** What the registry is made of. */
export interface RegistryOptions extends Omit<PullApiOptions, 'find' | 'meter'> {
  /** Whether a connection may be served at all; asked once for each. */
  readonly admit: (socket: Socket) => Promise<boolean>;
}

/** Where the registry listens: an inherited socket (systemd's fd 3), or an address; port 0 takes any free one. */
export type ListenTarget = { readonly fd: number } | { readonly host: string; readonly port: number };

/** The read-only registry from which the runtime pulls (OCI distribution-spec 1.1, pull). */
export interface Registry {
  readonly meter: TransferMeter;
  /**
   * Replaces what may be served by the repositories of a catalog, under their mirror paths; manifests in `withheld` are answered 404, so that
   * the runtime looks for them elsewhere.
   */
  setCatalog(catalog: Catalog, withheld?: ReadonlySet<Digest>): void;
  /** Replaces what may be served by whatever `find` finds under a path. */
  setOffers(find: PullApiOptions['find']): void;
  /** Starts to listen and returns its authority, as `127.0.0.1:5317`. @throws AppError `registry/listen` (`fatal`) */
  listen(target: ListenTarget): Promise<string>;
  /** Stops listening and drops every connection. */
  close(): Promise<void>;
}

/** A registry that serves nothing yet. */
export function createRegistry(options: RegistryOptions): Registry {
  const meter = createMeter();
  const admissions = new WeakMap<Socket, Promise<boolean>>();
  let find: PullApiOptions['find'] = () => undefined;
  const answer = createPullApi({ ...options, meter, find: (path, namespace) => find(path, namespace) });
  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      if (!response.destroyed) options.log.warn({ err: error }, `Registry: a request failed: ${reasonOf(error)}`);
      response.destroy();
    });
  });
  server.requestTimeout = 0; // a blob may wait for its medium for longer than any fixed limit

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    const admission = admissions.get(socket) ?? options.admit(socket);
    admissions.set(socket, admission);
    if (!(await admission)) {
      const message = 'only the container runtime of this node may pull here';
      respondError(response, 403, { code: 'DENIED', message });
      return;
    }
    response.setHeader('docker-distribution-api-version', 'registry/2.0');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      respondError(response, 405, { code: 'UNSUPPORTED', message: 'this registry is read-only' });
      return;
    }
    await answer({ request, response });
  }

  return {
    meter,
    setCatalog: (next, withheld) => {
      const offers = new Map(
        [...next].map(([repository, entry]) => [mirrorPathOf(repository), { ...entry, withheld }]),
      );
      find = (path) => offers.get(path);
    },
    setOffers: (next) => {
      find = next;
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
  if (typeof address !== 'object' || address === null) return String(address);
  return `${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}
