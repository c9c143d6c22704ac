import { connect } from 'node:net';
import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import { formatEndpoint } from '../../domain/settings/value-types.ts';
import { createOffersClient, type OffersClient } from '../../offers/client/client.ts';
import { createWireConnection, type WireConnection } from '../../offers/client/wire-connection.ts';
import type { OffersDocument } from '../../offers/documents.ts';
import { wireLimits } from '../../offers/limits.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { fleetError } from '../fleet-error.ts';
import type { Identity } from '../identity/identity.ts';
import { callPeer } from '../identity/tls-ends.ts';
import type { Target } from './targets.ts';

/** How peers are reached. */
export interface PeerWays {
  /** Who this node is; undefined with `fleet.auth = "none"`: plain TCP. */
  readonly identity: (() => Identity | undefined) | undefined;
  readonly clock: Clock;
  /** Told for each sign of life of a node. */
  readonly onHeard: (node: string) => void;
}

/** Another node, and what it told last. Times are monotonic. */
export interface KnownPeer {
  target: Target;
  readonly connection: WireConnection;
  readonly client: OffersClient;
  /** Of its certificate, or of its own word where nodes do not prove who they are. */
  node?: string | undefined;
  bundles: OffersDocument['bundles'];
  status?: NodeStatus | undefined;
  /** When it said so last: an answer without news says that nothing has changed. */
  statusAtMs: number;
  etag?: string | undefined;
  trouble?: string | undefined;
  hasAnswered: boolean;
  isAsked: boolean;
  /** It may hold its answer until it has news. */
  isWaitedFor: boolean;
  quiet: number;
  nextAskMs: number;
}

/**
 * Connections to one peer: one for each layer that a runtime pulls at once, or the others wait and
 * count as stalled. One less than the peer allows, which may not have seen the end of another yet.
 */
const MOST_CONNECTIONS = wireLimits.ofNode - 1;

/** A peer that was not asked yet. Nothing is opened before it is. */
export function createPeer(target: Target, ways: PeerWays, nextAskMs: number): KnownPeer {
  const where = formatEndpoint(target.endpoint);
  const who = target.name === undefined ? where : `${target.name} (${where})`;
  const connection = createWireConnection({
    who,
    maxConnections: MOST_CONNECTIONS,
    connect: () => open(peer, ways),
  });
  const peer: KnownPeer = {
    target,
    connection,
    client: createOffersClient(connection),
    bundles: [],
    statusAtMs: 0,
    hasAnswered: false,
    isAsked: false,
    isWaitedFor: false,
    quiet: 0,
    nextAskMs,
  };
  return peer;
}

/** The name of a peer: that of its Node where it is known, else its address. */
export function nameOf({ target, node }: Pick<KnownPeer, 'target' | 'node'>): string {
  return target.name ?? node ?? formatEndpoint(target.endpoint);
}

async function open(peer: KnownPeer, { identity, clock, onHeard }: PeerWays) {
  const { endpoint, names } = peer.target;
  if (identity === undefined) return connect(endpoint);
  const own = identity();
  if (own === undefined) {
    throw fleetError(
      'fleet/identity',
      "this node can't prove who it is: see the lines about the kubelet's certificate",
    );
  }
  // It has a deadline of its own: the request that asked for it may be gone before.
  const { socket, node } = await callPeer({ endpoint, identity: own, expected: names, clock }, NEVER_ABORTED);
  peer.node = node;
  // It lives, also when it refuses the certificate of this node after that.
  onHeard(node);
  return socket;
}
