import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Endpoint, formatEndpoint } from '../../domain/settings/value-types.ts';
import { respondBusy } from '../../offers/busy.ts';
import { WIRE_SERVER_OPTIONS, wireLimits } from '../../offers/documents.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Identity } from '../identity/identity.ts';
import { createTlsGate, type EnteredConnection } from '../identity/tls-ends.ts';
import { fleetError, type WarnOnce } from '../trouble.ts';
import { type Connections, createConnections } from './served-nodes.ts';

interface NodeServerOptions {
  readonly endpoint: Endpoint;
  /** Undefined with `fleet.auth = "none"`: plain TCP. */
  readonly identity: (() => Identity | undefined) | undefined;
  /** `node` is the name of a Node, or an address with `fleet.auth = "none"`. */
  readonly answer: (node: string, request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly clock: Clock;
  readonly warnings: WarnOnce;
}

export interface NodeServer {
  readonly endpoint: Endpoint;
  /** Drops every connection. */
  close(): Promise<void>;
}

type Caller = Pick<EnteredConnection, 'node' | 'isStillKnown'>;

/**
 * INVARIANTS: HTTP is read only from connections whose other end is known. A request is answered
 * only while the certificate of its connection counts, and at most {@link wireLimits.ofNode} of a
 * node at once.
 *
 * @throws AppError `fleet/listen` (`retry`)
 */
export async function serveNodes(options: NodeServerOptions): Promise<NodeServer> {
  const callers = new WeakMap<Socket, Caller>();
  const connections = createConnections();
  const requests = createRequests();
  const server = createServer(WIRE_SERVER_OPTIONS, (request, response) => {
    const caller = callers.get(request.socket);
    if (caller?.isStillKnown() !== true) return void request.socket.destroy();
    if (!requests.begin(caller.node, response)) return respondBusy(response, { retryMs: wireLimits.retryMs });
    void options.answer(caller.node, request, response);
  });
  const serveHttp = server.listeners('connection');
  server.removeAllListeners('connection');
  const enter = (raw: Socket, socket: Socket, caller: Caller) => {
    if (!connections.admit(raw, caller.node)) return;
    callers.set(socket, caller);
    for (const listener of serveHttp) listener.call(server, socket);
  };
  Object.assign(server, { pauseOnConnect: options.identity !== undefined });
  server.on('connection', gateOf(options, connections, enter));
  await listen(server, options.endpoint);
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : options.endpoint.port;
  return {
    endpoint: { host: options.endpoint.host, port },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      connections.closeAll();
      await closed;
    },
  };
}

function gateOf(
  { identity, clock, warnings }: NodeServerOptions,
  connections: Connections,
  enter: (raw: Socket, socket: Socket, caller: Caller) => void,
): (socket: Socket) => void {
  if (identity === undefined) {
    return (socket) => {
      socket.on('error', () => undefined);
      const node = socket.remoteAddress ?? 'unknown';
      if (connections.begin(socket)) enter(socket, socket, { node, isStillKnown: () => true });
    };
  }
  const gate = createTlsGate({
    identity,
    clock,
    onKnown: ({ raw, socket, ...caller }) => {
      warnings.over(addressOf(raw));
      enter(raw, socket, caller);
    },
    onRefused: (address, { cause, reason }) => {
      warnings.warn(
        address,
        cause,
        { address, cause, messageId: messageIds.peerRefused },
        `${address} is refused: it ${reason}`,
      );
    },
  });
  return (socket) => {
    if (connections.begin(socket)) gate.accept(socket);
  };
}

function addressOf(socket: Socket): string {
  return socket.remoteAddress ?? 'an unknown address';
}

async function listen(server: Server, endpoint: Endpoint): Promise<void> {
  try {
    const listening = once(server, 'listening');
    server.listen({ ...endpoint, exclusive: true });
    await listening;
  } catch (cause) {
    const where = formatEndpoint(endpoint);
    const remedy =
      systemCodeOf(cause) === 'EADDRNOTAVAIL'
        ? 'this node does not have that address'
        : 'free the port or set fleet.listen';
    const message = `${where} can't be listened on: ${reasonOf(cause)}; ${remedy}`;
    throw fleetError('fleet/listen', message, { cause });
  }
}

/** Counts the requests of each node: one connection can carry many. */
interface Requests {
  /** Until its response ends. @returns false when the node has too many */
  begin(node: string, response: ServerResponse): boolean;
}

function createRequests(): Requests {
  const running = new Map<string, number>();
  return {
    begin: (node, response) => {
      const count = running.get(node) ?? 0;
      if (count >= wireLimits.ofNode) return false;
      running.set(node, count + 1);
      response.once('close', () => {
        const left = (running.get(node) ?? 1) - 1;
        if (left === 0) running.delete(node);
        else running.set(node, left);
      });
      return true;
    },
  };
}
