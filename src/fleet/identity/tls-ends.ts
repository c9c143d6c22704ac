import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createServer, type Server, type TLSSocket } from 'node:tls';
import { type Endpoint, formatEndpoint } from '../../domain/settings/addresses.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { fleetError } from '../trouble.ts';
import {
  type ChainProof,
  checkPeer,
  type Identity,
  type PeerVerdict,
  type RefusalCause,
  remaining,
} from './identity.ts';
import { checkKey } from './node-keys.ts';

/** At either end. */
export const HANDSHAKE_MS = 10_000;

export interface KnownConnection {
  readonly socket: TLSSocket;
  /** Its certificate has this name. */
  readonly node: string;
  /** `sha256:…` of its certificate, or of its key with `fleet.auth = "keys"`. */
  readonly certificate: string;
}

export interface EnteredConnection extends KnownConnection {
  readonly raw: Socket;
  /** Its certificate and the authorities may have expired. */
  isStillKnown(): boolean;
}

interface TlsGateOptions {
  /** Connections are closed while it is undefined. */
  readonly identity: () => Identity | undefined;
  readonly clock: Clock;
  /** No byte of a request was read yet. */
  readonly onKnown: (connection: EnteredConnection) => void;
  /** `address` is that of the other end. */
  readonly onRefused: (
    address: string,
    verdict: { readonly cause: RefusalCause | 'handshake'; readonly reason: string },
  ) => void;
}

/**
 * INVARIANT: `onKnown` is called after the certificate was checked; no byte of a request is read
 * before.
 */
export class TlsGate {
  private readonly server: Server;
  /** The context of `server` uses it. */
  private inUse: Identity | undefined;
  /** Connections below TLS, by their other end. */
  private readonly raws = new Map<string, Socket>();

  constructor(private readonly options: TlsGateOptions) {
    this.server = createServer({
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: 'TLSv1.3',
      handshakeTimeout: HANDSHAKE_MS,
      pauseOnConnect: true,
    });
    this.server.on('secureConnection', (socket) => this.onSecure(socket));
    this.server.on('tlsClientError', (error, socket) => {
      const reason = `spoke no TLS 1.3 with us: ${reasonOf(error)}`;
      // One that is closed already was not refused.
      if (socket.remoteAddress !== undefined) options.onRefused(addressOf(socket), { cause: 'handshake', reason });
      socket.destroy();
    });
  }

  /** Nothing was read from the connection yet. */
  accept(socket: Socket): void {
    const now = this.options.identity();
    socket.on('error', ignore);
    if (now === undefined) return void socket.destroy();
    if (now !== this.inUse) {
      this.server.setSecureContext(now.options);
      this.inUse = now;
    }
    const end = endOf(socket);
    this.raws.set(end, socket);
    socket.once('close', () => this.raws.delete(end));
    this.server.emit('connection', socket);
  }

  private onSecure(socket: TLSSocket): void {
    const { identity, clock, onKnown, onRefused } = this.options;
    socket.on('error', ignore);
    const proof = { authorized: socket.authorized, error: socket.authorizationError };
    const withIdentity = this.inUse;
    const judge = () => verdictOf(socket, withIdentity, clock.now(), proof);
    const verdict = judge();
    const raw = this.raws.get(endOf(socket));
    if (verdict.kind === 'node' && raw !== undefined) {
      const isStillKnown = () => identity() === withIdentity && judge().kind === 'node';
      onKnown({ raw, socket, node: verdict.node, certificate: verdict.certificate, isStillKnown });
      return;
    }
    if (verdict.kind === 'refused') onRefused(addressOf(socket), verdict);
    socket.destroy();
  }
}

interface TlsCall {
  readonly endpoint: Endpoint;
  readonly identity: Identity;
  /** Names of Nodes, one of which must answer; none: any node of the cluster. */
  readonly expected: readonly string[];
  readonly clock: Clock;
}

/**
 * Resolves when the other node's certificate was checked; nothing was sent yet.
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
  if (verdict.kind === 'node') return { socket, node: verdict.node, certificate: verdict.certificate };
  socket.destroy();
  throw fleetError('fleet/refused', `${where} ${verdict.reason}`, { disposition: 'wait' });
}

/** A resumed session would bring an old certificate; none is ever offered. */
function verdictOf(socket: TLSSocket, identity: Identity | undefined, now: number, proof?: ChainProof): PeerVerdict {
  if (socket.isSessionReused()) return { kind: 'refused', cause: 'resumed', reason: 'resumed an earlier TLS session' };
  const leaf = socket.getPeerX509Certificate();
  const { keys, authorities = [] } = identity ?? {};
  const verdict = keys === undefined ? checkPeer(leaf, authorities, now, proof) : checkKey(leaf, keys);
  return verdict.kind === 'node' ? remaining(verdict, identity?.exclude ?? []) : verdict;
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

/** Unique among the connections to one port. */
function endOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** A socket that listens on all addresses sees IPv4 as `::ffff:10.0.0.4`. */
export function addressOf({ remoteAddress = 'an unknown address' }: Socket): string {
  return remoteAddress.replace(/^::ffff:/i, '');
}

function ignore(): void {}
