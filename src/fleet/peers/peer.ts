import { connect } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import type { NodeStatus, Peer } from '../../domain/fleet/node-status.ts';
import { type Endpoint, formatEndpoint, parseEndpoint } from '../../domain/settings/value-types.ts';
import { createOffersClient, type OffersClient } from '../../offers/client/client.ts';
import { createWireConnection, type WireConnection } from '../../offers/client/wire-connection.ts';
import { type OffersDocument, wireLimits } from '../../offers/documents.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import type { InTurn } from '../../platform/async/concurrency.ts';
import type { Clock } from '../../platform/clock.ts';
import { readIfPresent, replaceFile } from '../../platform/files/durable-file.ts';
import type { Log } from '../../platform/log.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { Identity } from '../identity/identity.ts';
import { callPeer } from '../identity/tls-ends.ts';
import { isLocal } from '../publish/own-report.ts';
import { type Cluster, fleetError } from '../trouble.ts';

export interface PeerWays {
  /** Undefined with `fleet.auth = "none"`: plain TCP. */
  readonly identity: (() => Identity | undefined) | undefined;
  readonly clock: Clock;
  /** Called for each sign of life of a node. */
  readonly onHeard: (node: string) => void;
}

/** Times are monotonic. */
export interface KnownPeer {
  target: Target;
  readonly connection: WireConnection;
  readonly client: OffersClient;
  /** From its certificate; self-declared without authentication. */
  node?: string | undefined;
  bundles: OffersDocument['bundles'];
  status?: NodeStatus | undefined;
  /** An answer without news renews it. */
  statusAtMs: number;
  etag?: string | undefined;
  trouble?: string | undefined;
  hasAnswered: boolean;
  isAsked: boolean;
  /** A long poll may be running. */
  isWaitedFor: boolean;
  quiet: number;
  nextQueryMs: number;
}

/**
 * Connections to one peer: one for each layer that a runtime pulls at once, or the others count as
 * stalled. One less than the peer allows, which may notice a closed one later.
 */
const MOST_CONNECTIONS = wireLimits.ofNode - 1;

/** Opens nothing before the first query. */
export function createPeer(target: Target, ways: PeerWays, nextQueryMs: number): KnownPeer {
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
    nextQueryMs,
  };
  return peer;
}

/** Its address until its Node is known. */
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
  // With a deadline of its own: its request may end earlier.
  const { socket, node } = await callPeer({ endpoint, identity: own, expected: names, clock }, NEVER_ABORTED);
  peer.node = node;
  // It lives, even if it refuses this node's certificate next.
  onHeard(node);
  return socket;
}

export interface RememberedNodes {
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble'>;
  readonly store: PeerStore;
  readonly inTurn: InTurn;
  stored: readonly StoredPeer[];
}

/** Then a node that the API server does not name is gone. */
export function isComplete({ trouble, nodes }: Pick<Cluster, 'nodes' | 'trouble'>): boolean {
  return trouble() === undefined && nodes().length > 0;
}

/** After a restart this node waits for them too, while the API does not answer. */
export async function rememberNodes(known: RememberedNodes, signal: AbortSignal): Promise<void> {
  const { cluster, stored } = known;
  if (!isComplete(cluster)) return;
  const before = new Map(stored.map((one) => [one.name, one.address]));
  const nodes = cluster.nodes().filter(({ name }) => name !== cluster.self());
  const next = nodes.map(({ name, endpoint }): StoredPeer => {
    const address = endpoint === undefined ? before.get(name) : formatEndpoint(endpoint);
    return { name, ...(address !== undefined && { address }) };
  });
  if (!isDeepStrictEqual(next, stored)) await store(known, next, signal);
}

/**
 * Stores where a node answered, unless the Kubernetes API has its address or knows that it is gone.
 */
export async function rememberPeer(known: RememberedNodes, peer: KnownPeer, signal: AbortSignal): Promise<void> {
  const { cluster, stored } = known;
  const name = peer.target.name ?? peer.node;
  const address = formatEndpoint(peer.target.endpoint);
  if (name === undefined || name === cluster.self()) return;
  const node = cluster.nodes().find((one) => one.name === name);
  if (isComplete(cluster) && (node === undefined || node.endpoint !== undefined)) return;
  if (stored.some((one) => one.name === name && one.address === address)) return;
  const others = stored.filter((one) => one.name !== name && one.address !== address);
  await store(known, [...others, { name, address }], signal);
}

async function store(known: RememberedNodes, next: readonly StoredPeer[], signal: AbortSignal): Promise<void> {
  known.stored = next.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  await known.inTurn(signal, () => known.store.save(known.stored, signal));
}

export interface StoredPeer {
  readonly name: string;
  /** Where it answered last or offers to, as `10.0.0.4:9777`. */
  readonly address?: string | undefined;
}

/** For a start without an API server. */
export interface PeerStore {
  /** Without local addresses; none when the file can't be used. */
  load(signal: AbortSignal): Promise<readonly StoredPeer[]>;
  /** A failure is one line in the log. */
  save(peers: readonly StoredPeer[], signal: AbortSignal): Promise<void>;
}

/** More nodes than a cluster has (kubernetes.io, "Considerations for large clusters"). */
const MOST_PEERS = 5_000;

const shortText = v.pipe(v.string(), v.minLength(1), v.maxLength(253));
const address = v.pipe(
  v.string(),
  v.check((text) => wellFormed(text) === text),
);
const storedPeers = v.object({
  version: v.literal(1),
  peers: v.pipe(v.array(v.object({ name: shortText, address: v.optional(address) })), v.maxLength(MOST_PEERS)),
});

/** For its owner only (mode 0600). */
export function createPeerStore(path: string, log: Log): PeerStore {
  return {
    load: async (signal) => {
      try {
        signal.throwIfAborted();
        const text = await readIfPresent(path);
        return text === undefined ? [] : v.parse(storedPeers, JSON.parse(text)).peers.map(withoutLocal);
      } catch (error) {
        const message = `${path} can't be used, so no peers of before are asked: ${reasonOf(error)}. It is written anew`;
        if (!signal.aborted) log.warn({ err: error }, message);
        return [];
      }
    },
    save: async (peers, signal) => {
      const kept = [...peers].sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, MOST_PEERS);
      const text = `${JSON.stringify({ version: 1, peers: kept }, null, 2)}\n`;
      await replaceFile({ path, mode: 0o600 }, text, signal).catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, `${path} can't be written: ${reasonOf(error)}`);
      });
    },
  };
}

/** This node still waits for the node itself. */
function withoutLocal({ name, address }: StoredPeer): StoredPeer {
  const host = address === undefined ? undefined : parseEndpoint(address, 0)?.host;
  return { name, ...(host !== undefined && !isLocal(host) && { address }) };
}

function wellFormed(text: string): string | undefined {
  const endpoint = parseEndpoint(text, 0);
  return endpoint && formatEndpoint(endpoint);
}

/** Where another node may answer. */
export interface Target {
  readonly endpoint: Endpoint;
  /** The Node that must answer; undefined: any other one. */
  readonly name?: string | undefined;
  /**
   * Nodes that may answer; none for a fixed address. Several where a Node outlived its machine and
   * its address was reused, or where one claims the address of another.
   */
  readonly names: readonly string[];
  /** The Kubernetes API announces news. Others are queried now and then. */
  readonly isAnnounced: boolean;
  /** Changes with the announcement. */
  readonly announced: string;
}

export interface Peers {
  /** By name. */
  list(): readonly Peer[];
  find(name: string): KnownPeer | undefined;
  /** By name, as received on the wire. */
  statuses(): ReadonlyMap<string, ReceivedStatus>;
  /** All other nodes that are or were known; a fixed address that never answered has none. */
  nodeNames(): readonly string[];
  failed(peer: KnownPeer, error: unknown): void;
  /** The own status has changed: queries may be due. */
  look(): void;
  onChange(listener: () => void): Unsubscribe;
  load(signal: AbortSignal): Promise<void>;
  /** Queries peers until `signal` aborts. Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ReceivedStatus {
  /** Undefined: withdrawn by the node. */
  readonly status: NodeStatus | undefined;
  readonly atMs: number;
}
