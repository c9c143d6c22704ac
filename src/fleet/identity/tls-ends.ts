import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { type Endpoint, formatEndpoint } from '../../domain/settings/value-types.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { fleetError } from '../trouble.ts';
import { type ChainProof, checkPeer, type PeerVerdict, type RefusalCause } from './check-peer.ts';
import type { Identity } from './identity.ts';

/** How long a handshake may take, at either end. */
const HANDSHAKE_MS = 10_000;

/** A connection whose other end is known. */
export interface KnownConnection {
  readonly socket: TLSSocket;
  /** The name of the Node at the other end, of its certificate. */
  readonly node: string;
}

/** A connection that came in. */
export interface EnteredConnection extends KnownConnection {
  /** What it was made of. */
  readonly raw: Socket;
  /** Whether it would be taken now too: its certificate and the authorities may have ended. */
  isStillKnown(): boolean;
}

/** What happens to a connection that {@link createTlsGate} takes. */
export interface TlsGateOptions {
  /** The own identity now; while there is none, connections are closed. */
  readonly identity: () => Identity | undefined;
  readonly clock: Clock;
  /** Takes a connection from which no byte of a request was read. */
  readonly onKnown: (connection: EnteredConnection) => void;
  /** Told why one was closed. `address` is that of the other end. */
  readonly onRefused: (
    address: string,
    verdict: { readonly cause: RefusalCause | 'handshake'; readonly reason: string },
  ) => void;
}

/** The end of TLS that is called. */
export interface TlsGate {
  /** Takes a connection from which nothing was read. */
  accept(socket: Socket): void;
}

/**
 * Makes the end that is called. INVARIANT: `onKnown` is called after the certificate was checked,
 * and until then no byte of a request is read.
 */
export function createTlsGate({ identity, clock, onKnown, onRefused }: TlsGateOptions): TlsGate {
  let inUse: Identity | undefined;
  const raws = new Map<string, Socket>();
  const server = createServer({
    requestCert: true,
    rejectUnauthorized: false,
    minVersion: 'TLSv1.3',
    handshakeTimeout: HANDSHAKE_MS,
    pauseOnConnect: true,
  });
  server.on('secureConnection', (socket) => {
    socket.on('error', ignore);
    const proof = { authorized: socket.authorized, error: socket.authorizationError };
    const withIdentity = inUse;
    const judge = () => verdictOf(socket, withIdentity, clock.now(), proof);
    const verdict = judge();
    const raw = raws.get(endOf(socket));
    if (verdict.kind === 'node' && raw !== undefined) {
      const isStillKnown = () => identity() === withIdentity && judge().kind === 'node';
      return onKnown({ raw, socket, node: verdict.node, isStillKnown });
    }
    if (verdict.kind === 'refused') onRefused(addressOf(socket), verdict);
    socket.destroy();
  });
  server.on('tlsClientError', (error, socket) => {
    onRefused(addressOf(socket), { cause: 'handshake', reason: `spoke no TLS 1.3 with us: ${reasonOf(error)}` });
    socket.destroy();
  });
  return {
    accept: (socket) => {
      const now = identity();
      socket.on('error', ignore);
      if (now === undefined) return void socket.destroy();
      if (now !== inUse) {
        server.setSecureContext(now.options);
        inUse = now;
      }
      const end = endOf(socket);
      raws.set(end, socket);
      socket.once('close', () => raws.delete(end));
      server.emit('connection', socket);
    },
  };
}

/** Whom to call. */
export interface TlsCall {
  readonly endpoint: Endpoint;
  readonly identity: Identity;
  /** The names of the Nodes of which one must be there; none: any node of the cluster. */
  readonly expected: readonly string[];
  readonly clock: Clock;
}

/**
 * Calls another node. Resolves when its certificate has been checked; nothing was sent yet.
 *
 * @throws AppError `fleet/unreachable`, `fleet/refused`: each names the endpoint
 */
export async function callPeer(call: TlsCall, signal: AbortSignal): Promise<KnownConnection> {
  const { endpoint, identity, expected, clock } = call;
  const where = formatEndpoint(endpoint);
  const socket = connect({
    ...endpoint,
    secureContext: identity.context,
    minVersion: 'TLSv1.3',
    rejectUnauthorized: false,
  });
  socket.on('error', ignore);
  try {
    await withDeadline(where, HANDSHAKE_MS, signal, (inTime) => once(socket, 'secureConnect', { signal: inTime }));
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    throw fleetError('fleet/unreachable', `${where} ${connectFault(error)}`, { cause: error });
  }
  const verdict = namedVerdict(verdictOf(socket, identity, clock.now()), expected);
  if (verdict.kind === 'node') return { socket, node: verdict.node };
  socket.destroy();
  throw fleetError('fleet/refused', `${where} ${verdict.reason}`, { disposition: 'wait' });
}

/** A session that is resumed brings the certificate of an earlier day; none is ever offered. */
function verdictOf(socket: TLSSocket, identity: Identity | undefined, now: number, proof?: ChainProof): PeerVerdict {
  if (socket.isSessionReused()) return { kind: 'refused', cause: 'resumed', reason: 'resumed an earlier TLS session' };
  return checkPeer(socket.getPeerX509Certificate(), identity?.authorities ?? [], now, proof);
}

function namedVerdict(verdict: PeerVerdict, expected: readonly string[]): PeerVerdict {
  if (verdict.kind === 'refused' || expected.length === 0 || expected.includes(verdict.node)) return verdict;
  const reason = `is ${verdict.node} by its certificate, and should be ${expected.join(' or ')}`;
  return { kind: 'refused', cause: 'wrong-node', reason };
}

function connectFault(error: unknown): string {
  const code = systemCodeOf(error);
  if (code === 'ECONNREFUSED') return 'refuses connections; is stickpin-fleet.service running there?';
  if (code === 'platform/deadline') return `did not answer within ${HANDSHAKE_MS} ms`;
  return `can't be reached: ${reasonOf(error)}`;
}

/** The other end: unique among the connections to one port. */
function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function addressOf(socket: Socket): string {
  return socket.remoteAddress ?? 'an unknown address';
}

function ignore(): void {}
