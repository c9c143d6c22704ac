import { isDeepStrictEqual } from 'node:util';
import type { NodeStatus, Peer } from '../../domain/fleet/node-status.ts';
import {
  type Endpoint,
  FLEET_PORT,
  formatEndpoint,
  isUnspecified,
  parseEndpoint,
} from '../../domain/settings/addresses.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { Wake } from '../../platform/async/wake.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { Observable } from '../../platform/subscription.ts';
import { HANDSHAKE_MS } from '../identity/tls-ends.ts';
import { type Cluster, type ClusterNode, fleetError, type WarnOnce } from '../trouble.ts';
import type { Watched, WatchOptions } from '../wire/client.ts';
import type { OffersDocument } from '../wire/documents.ts';
import { PeerBudgets } from '../wire/peer-budgets.ts';
import { Addresses, targetsOf } from './addresses.ts';
import { isNeedy, KnownPeer, type PeerWays, pauseOf, quietPauseOf, type Target } from './peer.ts';
import { queryMs, ROUNDS_TILL_ABSENT } from './silence.ts';
import { isComplete, type PeerStore, RememberedPeers, type StoredPeer } from './stored-peers.ts';

interface PeersOptions extends PeerWays {
  readonly settings: Pick<Settings['fleet'], 'peers' | 'activate' | 'absent' | 'exclude' | 'listen'>;
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble' | 'onChange' | 'meet' | 'isListed'>;
  readonly store: Pick<PeerStore, 'load' | 'save'>;
  readonly warnings: WarnOnce;
  readonly ownStatus: () => NodeStatus | undefined;
  /** Default: on a connection to the peer. */
  readonly request?: (peer: KnownPeer, watch: WatchOptions, signal: AbortSignal) => OffersAnswer;
}

type OffersAnswer = Promise<Watched<OffersDocument> | undefined>;

export interface ReceivedStatus {
  /** Undefined: withdrawn by the node. */
  readonly status: NodeStatus | undefined;
  readonly atMs: number;
}

/** However short `fleet.absent` is. */
const MOST_AT_ONCE = 512;

/** In milliseconds. */
const HEAD_START_MS = 600_000;

/** Queries that may begin at once after a rest. */
const BURST = 240;

/** Nodes see a change at once and spread their queries; at least, and for each node. */
const SPREAD_MS = 1_000;
const SPREAD_NODE_MS = 4;

/** How long the Kubernetes API is followed instead of a node that called. */
const MISSED_MS = 900_000;

/** Between two queries of a node that calls again and again. */
const CALLED_MS = 30_000;

const LONGEST_PAUSE_MS = 5_000;

/** Between two reads of the known nodes, for each of them. */
const FOLLOW_NODE_MS = 1;

/** The same while none of them has changed: the end of an exclusion is seen in this time. */
const FOLLOW_REST_MS = 60_000;

/** All known peers, and how they are queried. */
export class Peers extends Observable {
  private readonly remembered: RememberedPeers;
  private readonly addresses: Addresses;
  private leftOut: ReturnType<Addresses['leftOut']> = new Map();
  /** By `formatEndpoint()`. */
  private readonly byAddress = new Map<string, KnownPeer>();
  private readonly wake: Wake;
  /** Counts what other nodes have to know at once. */
  private news = 1;
  private hosts: ReadonlySet<string> = new Set();
  /** Queries that may begin now. */
  private budget = { left: BURST, atMs: Number.NEGATIVE_INFINITY };
  private followedMs = Number.NEGATIVE_INFINITY;
  private isFollowDue = true;

  constructor(private readonly options: PeersOptions) {
    super();
    this.wake = new Wake(options.clock);
    this.remembered = new RememberedPeers(options.store, options.cluster, options.clock);
    this.addresses = new Addresses(new PeerBudgets(options.clock));
  }

  /** By name. */
  list(): readonly Peer[] {
    const nowMs = this.options.clock.monotonic();
    const shown = [...this.shown().values()].filter(({ name }) => !this.leftOut.has(name));
    const leftOut = [...this.leftOut].map(
      ([name, { address, why }]): Peer => ({ name, address, trouble: why, leftOut: why, bundles: [] }),
    );
    return [...shown.map((peer) => peer.view(nowMs)), ...leftOut].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  find(name: string): KnownPeer | undefined {
    return this.shown().get(name);
  }

  /** Whether one of them may call from this address. */
  hasAddress(host: string): boolean {
    return this.hosts.has(host);
  }

  /** By name, as received on the wire. */
  statuses(): ReadonlyMap<string, ReceivedStatus> {
    const received = [...this.shown()].filter(([name, { status, saidBy }]) => status !== undefined && saidBy === name);
    return new Map(received.map(([name, { status, statusAtMs }]) => [name, { status, atMs: statusAtMs }]));
  }

  /** All other nodes that are or were known; a fixed address that never answered has none. */
  nodeNames(): readonly string[] {
    const queried = [...this.shown().values()].flatMap(({ target, node }) => target.name ?? node ?? []);
    const stored = this.stored().map(({ name }) => name);
    const others = stored.filter((name) => name !== this.options.cluster.self());
    return [...new Set([...queried, ...others])];
  }

  /**
   * Two hosts that one name of `fleet.keys_file` stands for, or a host with the key of this node:
   * neither sees the other.
   */
  namesakes(): string | undefined {
    const { node: self, keys, fingerprint } = this.options.identity?.() ?? {};
    if (keys === undefined) return undefined;
    const seen = new Map([[self, { where: 'this node', certificate: fingerprint }]]);
    for (const { node, certificate, trouble, target } of this.byAddress.values()) {
      if (node === undefined || trouble !== undefined) continue;
      const where = formatEndpoint(target.endpoint);
      const other = seen.get(node) ?? { where, certificate };
      seen.set(node, other);
      if (other.certificate !== certificate) {
        return `${other.where} and ${where} are both ${node}: give each host a name of its own in fleet.keys_file`;
      }
      if (node === self && !this.isOwn(target.endpoint)) {
        return `${where} has the key of this node: delete key.pem of stickpin-fleet on one of both, restart its unit, and list its new key`;
      }
    }
    return undefined;
  }

  /** With keys `fleet.listen` names the only address of this node, or all. */
  private isOwn(endpoint: Endpoint): boolean {
    const own = parseEndpoint(this.options.settings.listen, FLEET_PORT);
    // A URL has one form of each IPv6 address.
    const [one, other] = [own ?? endpoint, endpoint].map((at) => new URL(`http://${formatEndpoint(at)}`).host);
    return one === other || isUnspecified(own?.host ?? '');
  }

  private isIn(name: string): boolean {
    return !this.options.settings.exclude.includes(name);
  }

  /** With `fleet.auth = "keys"` the list says who the nodes are: none is known by an address. */
  private stored(): readonly StoredPeer[] {
    const keys = this.options.identity?.()?.keys;
    return keys === undefined ? this.remembered.list().filter(({ name }) => this.isIn(name)) : [];
  }

  /** The own status has changed: queries may be due. */
  statusChanged(): void {
    this.followSoon();
  }

  /** Others have to know it at once: they may rest, and read no Nodes. Each one is called. */
  callAll(): void {
    this.news += 1;
    for (const peer of this.byAddress.values()) peer.nextQueryMs = Math.min(peer.nextQueryMs, this.soonMs());
    this.wake.kick();
  }

  /** It has news. @param caller its Node, or its address without authentication */
  calledBy(caller: string): void {
    const isCaller = ({ name, target }: KnownPeer) => name === caller || target.endpoint.host === caller;
    const peer = [...this.byAddress.values()].find(isCaller);
    if (peer?.trouble !== undefined || peer === undefined) this.options.cluster.meet(caller);
    if (peer === undefined) return;
    peer.hadNewsMs = this.options.clock.monotonic();
    const restMs = Math.min(CALLED_MS, quietPauseOf(peer.trouble === undefined ? peer : { quiet: 1 }));
    peer.nextQueryMs = Math.min(peer.nextQueryMs, Math.max(peer.queriedMs + restMs, this.soonMs()));
    this.wake.kick();
  }

  /** A node that called does not answer: only the Kubernetes API has its news. */
  isNewsMissed(): boolean {
    const sinceMs = this.options.clock.monotonic() - MISSED_MS;
    return [...this.byAddress.values()].some(({ trouble, hadNewsMs }) => trouble !== undefined && hadNewsMs > sinceMs);
  }

  private soonMs(): number {
    const spreadMs = Math.max(SPREAD_MS, this.byAddress.size * SPREAD_NODE_MS);
    return this.options.clock.monotonic() + Math.random() * spreadMs;
  }

  load(signal: AbortSignal): Promise<void> {
    return this.remembered.load(signal);
  }

  /** Queries peers until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const unsubscribe = this.options.cluster.onChange(() => this.followSoon());
    const running = new Set<Promise<void>>();
    try {
      while (!signal.aborted) {
        await this.followNodes(signal);
        while (running.size < this.atOnce()) {
          const peer = this.next();
          if (peer === undefined) break;
          const one = this.query(peer, signal).finally(() => {
            running.delete(one);
            this.wake.kick();
          });
          running.add(one);
        }
        // The end of a query ends the pause.
        if (running.size >= this.atOnce()) await this.wake.wait(LONGEST_PAUSE_MS, signal);
        else await this.pause(signal);
      }
    } finally {
      unsubscribe();
      await Promise.all(running);
      await this.remembered.close();
      for (const { connection } of this.byAddress.values()) connection.close();
    }
  }

  /** The same cause is logged once. */
  failed(peer: KnownPeer, error: unknown): void {
    const { name } = peer;
    const trouble = `${reasonOf(error)}${this.hintOf(peer, error)}`;
    const code = error instanceof AppError ? error.code : 'unknown';
    const fields = { err: error, peer: name, messageId: messageIds.peerAway };
    this.options.warnings.warn(name, code, fields, `Nothing comes from ${name}: ${trouble}`);
    const isNews = peer.failed(trouble, this.options.clock);
    this.schedule(peer);
    if (isNews) this.notify();
  }

  /** The end that is called refuses without a word. */
  private hintOf({ hasAnswered }: KnownPeer, error: unknown): string {
    const isClosed = error instanceof AppError && systemCodeOf(error.cause) === 'ECONNRESET';
    if (!isClosed || hasAnswered || this.options.identity === undefined) return '';
    const proof = this.options.identity()?.keys === undefined ? 'certificate' : 'key';
    return `; it may refuse the ${proof} of this node, and its journal says why`;
  }

  /** One of each name: a node may answer at several addresses. */
  private shown(): ReadonlyMap<string, KnownPeer> {
    const byName = new Map<string, KnownPeer>();
    for (const peer of this.byAddress.values()) {
      const { name } = peer;
      const other = byName.get(name);
      const isBetter = other === undefined || (other.trouble !== undefined && peer.trouble === undefined);
      if (isBetter && name !== this.options.cluster.self() && this.isIn(name)) byName.set(name, peer);
    }
    return new Map([...byName].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  private queryMs(): number {
    return queryMs(this.byAddress.size, this.options.settings.absent);
  }

  /** Nodes that don't answer must not keep the others waiting. */
  private atOnce(): number {
    return Math.min(MOST_AT_ONCE, Math.ceil(HANDSHAKE_MS / this.queryMs()));
  }

  private async pause(signal: AbortSignal): Promise<void> {
    const nowMs = this.options.clock.monotonic();
    let nextMs = this.followDueMs();
    const leastMs = nowMs + (this.budget.left < 1 ? this.queryMs() : 10);
    for (const { isQueried, nextQueryMs } of this.byAddress.values()) {
      if (!isQueried) nextMs = Math.min(nextMs, Math.max(leastMs, nextQueryMs));
    }
    await this.wake.wait(Math.min(LONGEST_PAUSE_MS, nextMs - nowMs), signal);
  }

  /**
   * The due peer that is queried now: one that called or announces a bundle goes before others that
   * are due for at most {@link HEAD_START_MS} longer.
   */
  private next(): KnownPeer | undefined {
    const { clock, settings } = this.options;
    const nowMs = clock.monotonic();
    const headStartMs = Math.min(HEAD_START_MS, settings.absent / (2 * ROUNDS_TILL_ABSENT));
    const left = Math.min(BURST, this.budget.left + (nowMs - this.budget.atMs) / this.queryMs());
    this.budget = { left, atMs: nowMs };
    if (left < 1) return undefined;
    let first: KnownPeer | undefined;
    let firstMs = Number.POSITIVE_INFINITY;
    for (const peer of this.byAddress.values()) {
      if (peer.isQueried || peer.nextQueryMs > nowMs) continue;
      const hasNews = peer.hadNewsMs > peer.queriedMs || (peer.target.serves.length > 0 && peer.quiet <= 1);
      const sinceMs = peer.nextQueryMs - (hasNews ? headStartMs : 0);
      if (sinceMs < firstMs) [first, firstMs] = [peer, sinceMs];
    }
    if (first !== undefined) this.budget.left -= 1;
    return first;
  }

  private followSoon(): void {
    this.isFollowDue = true;
    this.wake.kick();
  }

  private followDueMs(): number {
    return this.followedMs + (this.isFollowDue ? this.byAddress.size * FOLLOW_NODE_MS : FOLLOW_REST_MS);
  }

  /** Many changes of a large cluster are read at once. */
  private async followNodes(signal: AbortSignal): Promise<void> {
    const { clock, cluster } = this.options;
    if (clock.monotonic() < this.followDueMs()) return;
    this.isFollowDue = false;
    this.followedMs = clock.monotonic();
    const nodes = this.addresses.follow(cluster.nodes().filter(({ name }) => this.isIn(name)));
    this.follow(nodes);
    await this.remembered.followCluster(nodes, signal).catch(() => undefined);
  }

  private follow(nodes: readonly ClusterNode[]): void {
    const { cluster, settings } = this.options;
    const leftOut = this.addresses.leftOut();
    const isNews = !isDeepStrictEqual(leftOut, this.leftOut);
    this.leftOut = leftOut;
    if (isNews) this.notify();
    const targets = targetsOf({
      self: cluster.self(),
      nodes,
      isComplete: isComplete(cluster),
      fixed: settings.peers,
      stored: this.stored().filter(({ name }) => !leftOut.has(name)),
    });
    this.hosts = new Set([...targets.values()].map(({ endpoint }) => endpoint.host));
    for (const [address, peer] of this.byAddress) {
      if (targets.has(address)) continue;
      this.byAddress.delete(address);
      peer.connection.close();
      this.notify();
    }
    for (const [address, target] of targets) {
      const peer = this.byAddress.get(address);
      const soonMs = this.soonMs();
      if (peer === undefined) this.byAddress.set(address, new KnownPeer(target, this.options, soonMs));
      else this.update(peer, target, soonMs);
    }
  }

  private update(peer: KnownPeer, target: Target, soonMs: number): void {
    const { cluster, clock } = this.options;
    const isNews =
      target.isAnnounced && (!peer.target.isAnnounced || !isDeepStrictEqual(peer.target.serves, target.serves));
    peer.leadsTo(target);
    if (isNews) peer.quiet = 0;
    // An address of this node itself is not queried again.
    if (peer.node === cluster.self()) peer.nextQueryMs = Number.POSITIVE_INFINITY;
    else peer.nextQueryMs = Math.min(peer.nextQueryMs, isNews ? soonMs : clock.monotonic() + this.pauseOf(peer));
  }

  /** Queries the offers of a peer. Never throws. */
  private async query(peer: KnownPeer, signal: AbortSignal): Promise<void> {
    peer.isQueried = true;
    const { news } = this;
    const { changes } = peer;
    try {
      const hasNews = peer.called < news;
      const watch = { etag: peer.etag, hasNews };
      const { request } = this.options;
      const answer = await (request?.(peer, watch, signal) ?? peer.client.offers(watch, signal));
      if (peer.changes !== changes) {
        throw fleetError('fleet/refused', `another node than before answers there, ${peer.node}`, {
          disposition: 'wait',
        });
      }
      peer.called = news;
      this.answered(peer, answer);
      if (await this.remembered.answered(peer, signal)) this.followSoon();
    } catch (error) {
      if (!signal.aborted) this.failed(peer, error);
    } finally {
      peer.isQueried = false;
      peer.queriedMs = this.options.clock.monotonic();
    }
  }

  /**
   * Whether this node waits for others, or follows a peer that does and that the Kubernetes API
   * does not announce: any node may be queried for the progress of all.
   */
  private isNewsWanted({ target, status }: KnownPeer): boolean {
    const { settings, ownStatus } = this.options;
    const isOrdered = settings.activate === 'ordered';
    return isNeedy(ownStatus(), isOrdered) || (!target.isAnnounced && isNeedy(status, isOrdered));
  }

  private pauseOf(peer: KnownPeer): number {
    return pauseOf(peer, this.isNewsWanted(peer));
  }

  private schedule(peer: KnownPeer): void {
    const jitter = 0.9 + Math.random() * 0.2;
    const pauseMs = peer.called < this.news && peer.trouble === undefined ? SPREAD_MS : this.pauseOf(peer);
    peer.nextQueryMs = this.options.clock.monotonic() + jitter * pauseMs;
  }

  private answered(peer: KnownPeer, answer: Watched<OffersDocument> | undefined): void {
    const { identity, clock, warnings, onHeard } = this.options;
    const isNews = answer !== undefined || peer.trouble !== undefined || !peer.hasAnswered;
    if (answer !== undefined) {
      peer.bundles = answer.document.bundles;
      peer.status = answer.document.node?.status;
      peer.etag = answer.etag;
      if (identity === undefined) peer.node = answer.document.node?.name;
      peer.saidBy = peer.node;
    }
    peer.statusAtMs = clock.monotonic();
    peer.quiet = isNews ? 1 : peer.quiet + 1;
    peer.trouble = undefined;
    peer.hasAnswered = true;
    warnings.over(peer.name);
    onHeard(peer.name);
    this.schedule(peer);
    if (isNews) this.notify();
  }
}
