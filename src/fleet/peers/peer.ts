import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { NodeStatus, Peer, ReleaseStatus } from '../../domain/fleet/node-status.ts';
import type { Phase } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { AWAY_CODES } from '../../domain/model/image.ts';
import type { ImageReason, MediaReason } from '../../domain/model/reason.ts';
import { OWN_CODES } from '../../domain/report/codes.ts';
import { type Endpoint, formatEndpoint } from '../../domain/settings/addresses.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import { defined } from '../../platform/defined.ts';
import type { Identity } from '../identity/identity.ts';
import { callPeer } from '../identity/tls-ends.ts';
import { fleetError } from '../trouble.ts';
import { OffersClient } from '../wire/client.ts';
import { WireConnection } from '../wire/connection.ts';
import { type OffersDocument, wireLimits } from '../wire/documents.ts';

export interface PeerWays {
  /** Undefined with `fleet.auth = "none"`: plain TCP. */
  readonly identity: (() => Identity | undefined) | undefined;
  readonly clock: Clock;
  /** Called for each sign of life of a node. */
  readonly onHeard: (node: string) => void;
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
  /** Bundles that are announced, sorted. */
  readonly serves: readonly BundleId[];
}

/**
 * Connections to one peer: one for each layer that a runtime pulls at once, or the others count as
 * stalled. One less than the peer allows, which may notice a closed one later.
 */
const MOST_CONNECTIONS = wireLimits.ofNode - 1;

/** A restart of a node is no trouble. */
const UNREACHED_MS = 60_000;

/** Another node. Times are monotonic. Opens nothing before the first query. */
export class KnownPeer {
  target: Target;
  readonly connection: WireConnection;
  readonly client: OffersClient;
  /** Its certificate has this name; without authentication the node declares it itself. */
  node: string | undefined;
  /** `sha256:…`; undefined without authentication. */
  certificate: string | undefined;
  bundles: OffersDocument['bundles'] = [];
  status: NodeStatus | undefined;
  /** The node that sent `status`. */
  saidBy: string | undefined;
  /** How often another node answered than before. */
  changes = 0;
  /** An answer without news renews it. */
  statusAtMs = 0;
  etag: string | undefined;
  trouble: string | undefined;
  troubleSinceMs = 0;
  /** The same in milliseconds since the epoch, for people. */
  troubleAt = 0;
  /** Before its trouble. */
  offered: OffersDocument['bundles'] = [];
  hasAnswered = false;
  isQueried = false;
  /** The end of the last query. */
  queriedMs = Number.NEGATIVE_INFINITY;
  /** Which news of this node it knows to exist. */
  called = 0;
  /** When it called last because it had news. */
  hadNewsMs = Number.NEGATIVE_INFINITY;
  /** Failures or answers without news in a row. */
  quiet = 0;
  nextQueryMs: number;

  constructor(target: Target, ways: PeerWays, nextQueryMs: number) {
    this.target = target;
    this.nextQueryMs = nextQueryMs;
    const where = formatEndpoint(target.endpoint);
    this.connection = new WireConnection({
      who: target.name === undefined ? where : `${target.name} (${where})`,
      maxConnections: MOST_CONNECTIONS,
      connect: () => this.open(ways),
    });
    this.client = new OffersClient(this.connection);
  }

  /** Its address until its Node is known. */
  get name(): string {
    return this.target.name ?? this.node ?? formatEndpoint(this.target.endpoint);
  }

  /** @param target at the same endpoint */
  leadsTo(target: Target): void {
    this.target = target;
    const { names } = target;
    if (this.node !== undefined && names.length > 0 && !names.includes(this.node)) this.forget();
  }

  /** @returns whether that is news */
  failed(trouble: string, clock: Clock): boolean {
    const isNews = this.trouble !== trouble;
    if (this.trouble === undefined) {
      this.quiet = 0;
      this.troubleSinceMs = clock.monotonic();
      this.troubleAt = clock.now();
      this.offered = this.bundles;
    }
    this.quiet += 1;
    this.trouble = trouble;
    this.etag = undefined;
    this.bundles = [];
    return isNews;
  }

  view(nowMs: number): Peer {
    const { name, target, bundles, hasAnswered, certificate } = this;
    const trouble = this.trouble ?? (hasAnswered ? undefined : 'it was not asked yet');
    const isLong = this.trouble !== undefined && nowMs - this.troubleSinceMs >= UNREACHED_MS;
    const ids = isLong ? new Set([...this.offered.map(({ bundleId }) => bundleId), ...target.serves]) : undefined;
    const unreached = ids?.size ? [...ids] : undefined;
    const since = isLong ? Math.floor(this.troubleAt / 1_000) * 1_000 : undefined;
    return defined({ name, address: formatEndpoint(target.endpoint), trouble, since, certificate, unreached, bundles });
  }

  /**
   * INVARIANT: what one node said never counts for another one that answers at its address, so its
   * connections end and nothing of it stays.
   */
  isAnsweredBy(node: string): void {
    if (this.node !== undefined && this.node !== node) this.forget();
    this.node = node;
  }

  private forget(): void {
    this.changes += 1;
    this.connection.close();
    this.node = undefined;
    this.status = undefined;
    this.etag = undefined;
    this.bundles = [];
    this.offered = [];
  }

  private async open({ identity, clock, onHeard }: PeerWays): Promise<Duplex> {
    const { endpoint, names } = this.target;
    if (identity === undefined) return connect(endpoint);
    const own = identity();
    if (own === undefined) {
      throw fleetError('fleet/identity', "this node can't prove who it is: 'stickpin doctor' and its journal say why");
    }
    // It has a deadline of its own: its request may end earlier.
    const { socket, node, certificate } = await callPeer(
      { endpoint, identity: own, expected: names, clock },
      NEVER_ABORTED,
    );
    this.isAnsweredBy(node);
    this.certificate = certificate;
    // It lives, even if it refuses this node's certificate next.
    onHeard(node);
    return socket;
  }
}

/** After failures and answers without news. */
const PAUSES = { firstMs: 5_000, longestMs: 600_000 };

/** While this node needs something. */
const NEEDY_MS = 30_000;

/** Images that were complete can be missing again. */
const KEPT: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

/**
 * To the next query, in milliseconds; infinite while the Kubernetes API announces news.
 *
 * @param isNewsWanted this node, or one that it follows, needs something
 */
export function pauseOf(peer: Pick<KnownPeer, 'quiet' | 'trouble' | 'target'>, isNewsWanted: boolean): number {
  const { quiet, trouble, target } = peer;
  if (target.isAnnounced && trouble === undefined && !isNewsWanted) return Number.POSITIVE_INFINITY;
  const pause = quietPauseOf({ quiet });
  return isNewsWanted ? Math.min(pause, NEEDY_MS) : pause;
}

export function quietPauseOf({ quiet }: Pick<KnownPeer, 'quiet'>): number {
  return pauseAfter(Math.max(quiet, 1), PAUSES);
}

/** A kept release lacks images, and another node may have them. */
const LACKING: ReadonlySet<string> = new Set<(ImageReason | MediaReason)['code']>([
  'engine/image-missing',
  'engine/image-damaged',
  'engine/no-base',
  'engine/needs-copy',
  'engine/no-source',
  'engine/offline',
  'bundle/blob-missing',
  'media/peer-waited-for',
  'media/looking',
  'media/reading',
]);

/** Codes of adapters are not in {@link OWN_CODES}. */
const OWN_REASONS: ReadonlySet<string> = new Set([...OWN_CODES, ...AWAY_CODES]);

/**
 * Whether a node lacks images or waits for others. A release that waits for its window counts: the
 * silence of others is measured before the window opens.
 *
 * @param isOrdered `fleet.activate` is `"ordered"`
 */
export function isNeedy(status: NodeStatus | undefined, isOrdered: boolean): boolean {
  return (status?.releases ?? []).some((release) => needsOthers(release, isOrdered));
}

function needsOthers({ phase, reason = '' }: ReleaseStatus, isOrdered: boolean): boolean {
  if (KEPT.has(phase)) return LACKING.has(reason);
  if (phase === 'preloading') return true;
  if (OWN_REASONS.has(reason) || reason.startsWith('trust/')) return false;
  // Held by an order that is signed with it, or by a pause, also where each node decides alone.
  const isOfFleet = isOrdered || reason.startsWith('fleet/');
  return phase === 'held' || (phase === 'ready' && isOfFleet);
}
