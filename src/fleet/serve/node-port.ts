import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type Endpoint, FLEET_PORT, formatEndpoint, parseEndpoint } from '../../domain/settings/addresses.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { Wake } from '../../platform/async/wake.ts';
import type { Clock } from '../../platform/clock.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { Observable } from '../../platform/subscription.ts';
import type { Identity } from '../identity/identity.ts';
import { addressOf, type EnteredConnection, TlsGate } from '../identity/tls-ends.ts';
import { type Cluster, fleetError, Trouble, type WarnOnce } from '../trouble.ts';
import { parseWirePath, respondBusy, WIRE_SERVER_OPTIONS, wireLimits } from '../wire/documents.ts';

interface NodePortOptions {
  /** `fleet.listen`. */
  readonly setting: string;
  readonly cluster: Pick<Cluster, 'address' | 'onChange'>;
  /** Keeps the last address, for a start without an API server. */
  readonly stateDir: string;
  readonly serve: (endpoint: Endpoint) => Promise<NodeServer>;
  readonly clock: Clock;
  readonly log: Log;
}

/** An address may come after the process, as at boot. */
const AGAIN_MS = 5_000;

/** The port for other nodes. */
export class NodePort extends Observable {
  private readonly file: string;
  private readonly unknown: Trouble;
  private server: NodeServer | undefined;
  /** What was requested for `server`. */
  private wanted: string | undefined;
  private isTried = false;
  /** Was logged last. */
  private logged: string | undefined;

  constructor(private readonly options: NodePortOptions) {
    super();
    const { log, clock, stateDir } = options;
    this.file = join(stateDir, 'address');
    this.unknown = new Trouble(log, clock);
  }

  /** Undefined while other nodes can't reach this one. */
  endpoint(): Endpoint | undefined {
    return this.server?.endpoint;
  }

  /** The port was opened, or could not be, since the start. */
  wasTried(): boolean {
    return this.isTried;
  }

  /** Follows changes of the address. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { cluster, clock } = this.options;
    const wake = new Wake(clock);
    const unsubscribe = cluster.onChange(() => wake.kick());
    while (!signal.aborted) {
      const address = await this.ownAddress(signal);
      if (address === undefined) {
        this.unknown.begin(
          'The address of this node is not known, so other nodes get nothing; fleet.listen can name it',
        );
      } else if (address !== this.wanted) await this.move(address, signal);
      await wake.wait(AGAIN_MS, signal);
    }
    unsubscribe();
    await this.server?.close();
  }

  private async move(address: string, signal: AbortSignal): Promise<void> {
    const { serve, log, setting } = this.options;
    const endpoint = parseEndpoint(address, FLEET_PORT);
    if (endpoint === undefined) return;
    await this.server?.close();
    this.server = undefined;
    this.wanted = undefined;
    try {
      this.server = await serve(endpoint);
      this.wanted = address;
      this.logged = undefined;
      this.unknown.end('The address of this node is known');
      log.info({ address }, `Other nodes reach this one on ${formatEndpoint(this.server.endpoint)}`);
      if (setting === 'auto') await replaceFile({ path: this.file, mode: 0o600 }, `${address}\n`, signal);
    } catch (error) {
      if (!signal.aborted) this.logOnce(`Other nodes can't reach this one: ${reasonOf(error)}`);
    }
    this.isTried = true;
    this.notify();
  }

  /** The last address counts while no API server runs. */
  private async ownAddress(signal: AbortSignal): Promise<string | undefined> {
    const { setting, cluster } = this.options;
    if (setting !== 'auto') return setting;
    const known = cluster.address();
    if (known !== undefined) return known;
    if (signal.aborted) return undefined;
    const text = await readIfPresent(this.file).catch(() => undefined);
    const last = text?.trim() ?? '';
    return parseEndpoint(last, FLEET_PORT) === undefined ? undefined : last;
  }

  private logOnce(message: string): void {
    if (this.logged !== message) this.options.log.warn({}, message);
    this.logged = message;
  }
}

interface NodeServerOptions {
  readonly endpoint: Endpoint;
  /** Undefined with `fleet.auth = "none"`: plain TCP. */
  readonly identity: (() => Identity | undefined) | undefined;
  /** Whether a node of the cluster has this address. Default: only those that proved it. */
  readonly isPeerAddress?: (address: string) => boolean;
  /** `node` is the name of a Node, or an address with `fleet.auth = "none"`. */
  readonly answer: (node: string, request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly clock: Clock;
  readonly warnings: WarnOnce;
}

interface NodeServer {
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
  const connections = new Connections(options);
  const server = createServer(WIRE_SERVER_OPTIONS, (request, response) => {
    const caller = callers.get(request.socket);
    if (caller?.isStillKnown() !== true) return void request.socket.destroy();
    if (!connections.beginRequest(caller.node, response)) return respondBusy(response, { retryMs: wireLimits.retryMs });
    if (isShortQuery(request)) response.shouldKeepAlive = false;
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
  await listenOn(server, options.endpoint);
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

/** Idle connections of many nodes that only query would leave none for transfers. */
function isShortQuery({ url = '', headers }: IncomingMessage): boolean {
  return headers.prefer === undefined && parseWirePath(url).kind === 'offers';
}

function gateOf(
  { identity, clock, warnings }: NodeServerOptions,
  connections: Connections,
  enter: (raw: Socket, socket: Socket, caller: Caller) => void,
): (socket: Socket) => void {
  if (identity === undefined) {
    return (socket) => {
      socket.on('error', () => undefined);
      const caller = { node: addressOf(socket), isStillKnown: () => true };
      if (connections.begin(socket)) enter(socket, socket, caller);
    };
  }
  const gate = new TlsGate({
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

async function listenOn(server: Server, endpoint: Endpoint): Promise<void> {
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

/** A connection whose other end has not proved yet who it is. */
export interface Handshake {
  readonly address: string;
  /** It is the address of a node of the cluster. */
  readonly isKnown: boolean;
}

/** Handshakes at once. */
export const MOST_HANDSHAKES = 64;

/** Addresses of no known node share these. The other slots are reserved for nodes. */
export const MOST_OF_STRANGERS = 32;

export const MOST_OF_ADDRESS = { known: 16, stranger: 8 } as const;

/**
 * Which handshake ends, so that the next one may begin: the oldest one of its address, or of all
 * strangers. Only nodes displace nodes.
 *
 * @param open the oldest first
 * @returns undefined when there is room, `next` when it may not begin
 */
export function displaced<Open extends Handshake>(open: readonly Open[], next: Handshake): Open | 'next' | undefined {
  const ofAddress = open.filter(({ address }) => address === next.address);
  if (ofAddress.length >= MOST_OF_ADDRESS[next.isKnown ? 'known' : 'stranger']) return ofAddress[0];
  const strangers = open.filter(({ isKnown }) => !isKnown);
  if (!next.isKnown && strangers.length >= MOST_OF_STRANGERS) return strangers[0];
  if (open.length < MOST_HANDSHAKES) return undefined;
  return strangers[0] ?? (next.isKnown ? open[0] : 'next');
}

const MOST_KNOWN = 512;

/** Addresses that are remembered as those of nodes. */
const MOST_PROVEN = 5_000;

interface OpenHandshake extends Handshake {
  readonly socket: Socket;
}

/** Counts connections and their requests, and closes excess connections. */
class Connections {
  /** Connections with an unknown other end, the oldest first. */
  private readonly unknown = new Map<Socket, OpenHandshake>();
  /** Node by connection. */
  private readonly known = new Map<Socket, string>();
  /** Running requests of each node: one connection can carry many. */
  private readonly requests = new Map<string, number>();
  /** Addresses of nodes that proved who they are, the oldest first. */
  private readonly proven = new Set<string>();

  constructor(private readonly options: NodeServerOptions) {}

  /** A connection with an unknown other end. @returns false when it was closed */
  begin(socket: Socket): boolean {
    const address = addressOf(socket);
    const isKnown = this.proven.has(address) || this.options.isPeerAddress?.(address) === true;
    const next: OpenHandshake = { socket, address, isKnown };
    const gone = displaced([...this.unknown.values()], next);
    if (gone !== undefined) this.end(gone === 'next' ? next : gone);
    if (gone === 'next') return false;
    this.unknown.set(socket, next);
    socket.once('close', () => {
      this.unknown.delete(socket);
      this.known.delete(socket);
    });
    return true;
  }

  private end({ socket, address, isKnown }: OpenHandshake): void {
    this.unknown.delete(socket);
    const who = isKnown ? address : 'addresses that are no known node';
    const text = `Too many connections of ${who} have not proved who they are: the oldest ones are closed, among them one of ${address}`;
    this.options.warnings.warn(who, 'handshakes', { address, messageId: messageIds.peerRefused }, text);
    socket.resetAndDestroy();
  }

  /** The other end is known. Closed when the node, or all nodes, have too many. */
  admit(socket: Socket, node: string): boolean {
    this.unknown.delete(socket);
    if (socket.destroyed) return false;
    const isFull = this.known.size >= MOST_KNOWN;
    if (isFull || countOf(this.known, node) >= wireLimits.ofNode) {
      const text = `Other nodes have ${MOST_KNOWN} connections to this one: further ones are closed`;
      if (isFull) this.options.warnings.warn('all nodes', 'connections', { messageId: messageIds.peerRefused }, text);
      socket.destroy();
      return false;
    }
    this.known.set(socket, node);
    this.remember(addressOf(socket));
    return true;
  }

  /** A request, until its response ends. @returns false when the node has too many */
  beginRequest(node: string, response: ServerResponse): boolean {
    const count = this.requests.get(node) ?? 0;
    if (count >= wireLimits.ofNode) return false;
    this.requests.set(node, count + 1);
    response.once('close', () => {
      const count = (this.requests.get(node) ?? 1) - 1;
      if (count === 0) this.requests.delete(node);
      else this.requests.set(node, count);
    });
    return true;
  }

  private remember(address: string): void {
    this.proven.delete(address);
    const [oldest] = this.proven;
    if (this.proven.size >= MOST_PROVEN && oldest !== undefined) this.proven.delete(oldest);
    this.proven.add(address);
  }

  closeAll(): void {
    for (const socket of [...this.unknown.keys(), ...this.known.keys()]) socket.destroy();
  }
}

function countOf(map: ReadonlyMap<Socket, string>, key: string): number {
  return [...map.values()].filter((one) => one === key).length;
}
