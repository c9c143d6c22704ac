import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { chosenGivers, type GiverRank, newRank } from '../../../src/domain/fleet/givers.ts';
import type { NodeStatus, OfferedBundle } from '../../../src/domain/fleet/node-status.ts';
import { type BundleId, type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import { orderPulls } from '../../../src/domain/preload/pull-schedule.ts';
import { PeerTurn } from '../../../src/fleet/daemon/peer-bundle.ts';
import { isNeedy, type KnownPeer } from '../../../src/fleet/peers/peer.ts';
import type { Peers } from '../../../src/fleet/peers/peers.ts';
import { OwnOffers } from '../../../src/fleet/serve/own-offers.ts';
import { ServedNodes, type Turn } from '../../../src/fleet/serve/served-nodes.ts';
import type { ClusterNode } from '../../../src/fleet/trouble.ts';
import type { Watched, WatchOptions } from '../../../src/fleet/wire/client.ts';
import { busyError, NEWS, type OffersDocument, wireLimits } from '../../../src/fleet/wire/documents.ts';
import { sendWatched } from '../../../src/fleet/wire/server.ts';
import { Wake } from '../../../src/platform/async/wake.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { Observable } from '../../../src/platform/subscription.ts';
import { fixedPeers } from '../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../support/kubernetes/fixed-cluster.ts';
import type { SimulatedClock } from '../../support/simulated-clock.ts';

/** What all nodes of a simulation share. */
export interface World {
  readonly clock: SimulatedClock;
  readonly random: () => number;
  readonly nodes: readonly SimulatedNode[];
  readonly bundleId: BundleId;
  /** Digests; at most 32. */
  readonly layers: readonly Digest[];
  readonly layerBytes: number;
  /** Of each node, in each direction. */
  readonly bytesPerSecond: number;
  readonly delayMs: number;
  readonly traffic: Traffic;
}

/** Of all nodes together. */
export interface Traffic {
  requests: number;
  connections: number;
  /** Without blobs. */
  bytes: number;
}

/** Of TCP, measured with `serveNodes` and certificates of the test authority; both directions. */
const HANDSHAKE_BYTES = 5_040;
/** A request and the head of its answer, without its body. */
const HEADS_BYTES = 350;

const PULLS = 2;
const CHUNK_BYTES = 4 * 1024 * 1024;
/** How often the daemon's report is read. */
const REPORT_MS = 1_000;
/** Between two writes of the own Node. */
const PUBLISH_MS = 60_000;
/** Between two reads of another node; see `PeerMedia`. */
const AGAIN_MS = 1_000;

/** A node: what its fleet process does, and a daemon that only takes the blobs of one bundle. */
export class SimulatedNode {
  readonly served: ServedNodes;
  /** A bit for each layer. */
  private has = 0;
  readonly cluster;
  doneMs = Number.POSITIVE_INFINITY;
  firstHeardMs = Number.POSITIVE_INFINITY;
  /** As it is written into its Node. */
  shown: ClusterNode;
  requests = 0;
  private readonly peers: Peers;
  private readonly own: OwnOffers;
  private readonly offers = new Observable();
  private readonly stop = new AbortController();
  private readonly changed = new Observable();
  private readonly turns = new Map<string, PeerTurn>();
  private readonly streams = new Map<string, number>();
  private taken = 0;
  private readonly seen = new Map<string, OfferedBundle>();
  /** Which blobs a giver had when its list was read last. */
  private readonly lists = new Map<string, number>();
  private readonly ranks = new Map<string, GiverRank>();
  private readonly lastMs = new Map<string, number>();
  private status: NodeStatus = { version: 1, arch: 'amd64', releases: [] };
  private readonly endpoint;
  private wasNeedy = false;
  private isOffering = false;
  private hasCalled = false;
  private active = 0;

  constructor(
    private readonly world: World,
    readonly name: string,
    at: number,
  ) {
    const { clock } = world;
    this.endpoint = { host: `10.${at >> 16}.${(at >> 8) % 256}.${at % 256}`, port: 9777 };
    this.shown = { name, endpoint: this.endpoint, serves: [], status: this.status };
    this.cluster = fixedCluster(name, this.endpoint.host);
    this.served = new ServedNodes({ max_clients: 2, rate: 'unlimited' }, clock);
    this.own = new OwnOffers({
      client: { offers: (watch, signal) => this.ownDaemon(watch, signal) },
      self: () => name,
      status: () => this.status,
      clock,
      log: silentLog,
    });
    this.peers = fixedPeers({
      clock,
      cluster: this.cluster,
      ownStatus: () => this.status,
      request: (peer, watch, signal) => this.query(peer, watch, signal),
    });
  }

  /** Until the simulation ends. @param others of which it knows */
  run(others: readonly SimulatedNode[]): Promise<unknown> {
    const { signal } = this.stop;
    this.show(others);
    this.own.onChange(() => this.callOthers());
    return Promise.all([
      this.own.run(signal),
      this.peers.run(signal),
      this.report(signal),
      this.publish(others, signal),
      ...Array.from({ length: PULLS }, () => this.pull(signal)),
    ]);
  }

  end(): void {
    this.stop.abort();
  }

  /** A stick with the bundle. */
  plug(): void {
    this.has = this.world.layers.reduce((all, _layer, at) => all | (1 << at), 0);
    this.doneMs = this.world.clock.monotonic();
    this.isOffering = true;
    this.offers.notify();
  }

  isDone(): boolean {
    return countOf(this.has) === this.world.layers.length;
  }

  private show(others: readonly SimulatedNode[]): void {
    this.cluster.set([...others.map(({ shown }) => shown), this.shown].sort((a, b) => (a.name < b.name ? -1 : 1)));
  }

  private async ownDaemon(watch: WatchOptions, signal: AbortSignal): Promise<Watched<OffersDocument> | undefined> {
    const wake = new Wake(this.world.clock);
    const stop = this.offers.onChange(() => wake.kick());
    const revision = () => `${this.isOffering} ${countOf(this.has)}`;
    if (watch.etag === revision()) await wake.wait(watch.waitMs ?? 0, signal);
    stop();
    if (watch.etag === revision()) return undefined;
    const { bundleId } = this.world;
    const [name, version, sequence] = ['ocp', '4.13.7', 7];
    const offered = { bundleId, name, version, sequence, isWhole: this.isDone(), revision: `${countOf(this.has)}` };
    return { document: { version: 1, bundles: this.isOffering ? [offered] : [] }, etag: revision() };
  }

  /** As the daemon reports it; see `Fleet`. */
  private async report(signal: AbortSignal): Promise<void> {
    const { clock, layers, bundleId } = this.world;
    for (;;) {
      const percent = Math.floor((100 * countOf(this.has)) / layers.length);
      const known = this.isOffering || this.seen.size > 0;
      const phase = this.isDone() ? 'proven' : 'preloading';
      const release = { name: 'ocp', version: '4.13.7', bundle: hexOf(bundleId).slice(0, 16) };
      const releases = known ? [{ ...release, phase, ...(phase === 'preloading' && { percent }) } as const] : [];
      if (JSON.stringify(releases) !== JSON.stringify(this.status.releases)) {
        this.status = { version: 1, arch: 'amd64', releases };
        this.own.notify();
        const needs = isNeedy(this.status, false);
        if (needs && !this.wasNeedy) this.peers.callAll();
        this.wasNeedy = needs;
        this.peers.statusChanged();
      }
      await clock.sleep(REPORT_MS, signal);
    }
  }

  /** Of a bundle that is new here. */
  private callOthers(): void {
    if (this.hasCalled || this.own.bundles().length === 0) return;
    this.hasCalled = true;
    this.peers.callAll();
  }

  /** Writes the own Node, and reads the others while something is needed. */
  private async publish(others: readonly SimulatedNode[], signal: AbortSignal): Promise<void> {
    const { clock, bundleId, random } = this.world;
    await clock.sleep(random() * PUBLISH_MS, signal);
    for (;;) {
      const serves = this.own.bundles().length > 0 ? [bundleId] : [];
      this.shown = { name: this.name, endpoint: this.endpoint, serves, status: this.status };
      if (this.wasNeedy) this.show(others);
      await clock.sleep(PUBLISH_MS, signal);
    }
  }

  /** What another node answers: its actual document, long polls and changes. */
  private async query(peer: KnownPeer, watch: WatchOptions, signal: AbortSignal) {
    const other = this.nodeOf(peer.name);
    const prefer =
      (watch.waitMs ?? 0) > 0 && watch.etag !== undefined ? `wait=${(watch.waitMs ?? 0) / 1_000}` : undefined;
    const path = `/v1/offers${watch.hasNews === true ? NEWS : ''}`;
    await this.connect(other, signal);
    const answer = await other.answer(this.name, path, { 'if-none-match': watch.etag, prefer });
    await this.world.clock.sleep(this.world.delayMs, signal);
    this.lastMs.set(other.name, this.world.clock.monotonic());
    if (answer.etag !== undefined) this.look(other, answer.document);
    return answer.etag === undefined ? undefined : { document: answer.document, etag: answer.etag };
  }

  /** A request, and a connection if there is none. */
  private async connect(other: SimulatedNode, signal: AbortSignal): Promise<void> {
    const { clock, delayMs, traffic } = this.world;
    const isOpen = clock.monotonic() - (this.lastMs.get(other.name) ?? Number.NEGATIVE_INFINITY) < wireLimits.idleMs;
    traffic.requests += 1;
    this.requests += 1;
    traffic.bytes += HEADS_BYTES + (isOpen ? 0 : HANDSHAKE_BYTES);
    if (!isOpen) traffic.connections += 1;
    await clock.sleep((isOpen ? 1 : 3) * delayMs, signal);
  }

  private async answer(caller: string, url: string, headers: Record<string, string | undefined>) {
    if (url.endsWith(NEWS)) this.peers.calledBy(caller);
    const response = new HeadOnly();
    const document = {
      current: async () => this.own.document(),
      onChange: (listener: () => void) => this.own.onChange(listener),
    };
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
    await sendWatched(
      { method: 'GET', url, headers: given } as unknown as IncomingMessage,
      response as unknown as ServerResponse,
      { document, clock: this.world.clock },
    );
    this.world.traffic.bytes += Buffer.byteLength(response.body);
    return { document: this.own.document(), etag: response.body === '' ? undefined : response.etag };
  }

  private look(other: SimulatedNode, { bundles }: OffersDocument): void {
    const [offered] = bundles;
    const known = this.seen.get(other.name);
    if (offered === undefined || known?.revision === offered.revision) return;
    this.firstHeardMs = Math.min(this.firstHeardMs, this.world.clock.monotonic());
    if (this.isDone()) return;
    this.seen.set(other.name, offered);
    if (known?.isWhole !== offered.isWhole) this.chooseGivers([...this.lists.keys(), other.name]);
    if (known !== undefined && this.lists.has(other.name)) this.readList(other.name);
  }

  private rankOf(name: string): GiverRank {
    const rank = this.ranks.get(name) ?? newRank(this.name, name);
    this.ranks.set(name, rank);
    return rank;
  }

  /** @param names all others would not be chosen */
  private chooseGivers(names: readonly string[]): void {
    const givers = [...new Set(names)].flatMap((name) => {
      const offered = this.seen.get(name);
      return offered === undefined ? [] : [{ name, bundles: [offered], rank: this.rankOf(name) }];
    });
    const chosen = chosenGivers(givers);
    for (const name of this.lists.keys()) {
      if (chosen.has(name)) continue;
      this.lists.delete(name);
      this.turns.get(name)?.close();
      this.turns.delete(name);
    }
    for (const name of chosen) if (!this.lists.has(name)) this.readList(name);
  }

  private readList(name: string): void {
    const { has } = this.nodeOf(name);
    this.lists.set(name, has);
    this.changed.notify();
    this.world.traffic.requests += 1;
    this.world.traffic.bytes += HEADS_BYTES + 100 * countOf(has);
  }

  /** One pull after the other. A node that gives something else is noticed within a second. */
  private async pull(signal: AbortSignal): Promise<void> {
    const { clock } = this.world;
    const wake = new Wake(clock);
    const unsubscribe = this.changed.onChange(() => wake.kick());
    while (!signal.aborted && !this.isDone()) {
      const found = this.choose();
      if (found !== undefined) await this.take(found.at, found.giver, signal);
      else await wake.wait(Number.MAX_SAFE_INTEGER, signal).then(() => clock.sleep(AGAIN_MS, signal));
    }
    unsubscribe();
    for (const turn of this.turns.values()) turn.close();
  }

  /** The layer that `orderPulls` puts first, from the node that gives the least. */
  private choose(): { readonly at: number; readonly giver: string } | undefined {
    const { layers, layerBytes } = this.world;
    const givers = [...this.lists].map(([name, blobs]) => ({ name, blobs }));
    const free = givers.filter(({ name }) => this.streams.get(name) !== 1 && this.turnOf(name).state().isReady);
    if (free.length === 0) return undefined;
    const holders = new Map<Digest, number>();
    const candidates = layers.flatMap((digest, at) => {
      const bit = 1 << at;
      if (((this.has | this.taken) & bit) !== 0 || !free.some(({ blobs }) => (blobs & bit) !== 0)) return [];
      holders.set(digest, givers.filter(({ blobs }) => (blobs & bit) !== 0).length);
      return [{ reference: digest, missingLayers: [{ digest, sizeBytes: layerBytes }], at }];
    });
    const [next] = orderPulls(candidates, { self: this.name, holders });
    if (next === undefined) return undefined;
    const ready = free.filter(({ blobs }) => (blobs & (1 << next.at)) !== 0);
    const [giver] = ready.sort((a, b) => countOf(a.blobs) - countOf(b.blobs));
    return giver && { at: next.at, giver: giver.name };
  }

  private async take(at: number, name: string, signal: AbortSignal): Promise<void> {
    const { layers, layerBytes } = this.world;
    const other = this.nodeOf(name);
    this.taken |= 1 << at;
    this.streams.set(name, 1);
    try {
      await this.connect(other, signal);
      const granted = other.served.request(this.name);
      if ('busy' in granted) {
        if (this.lists.has(name)) this.turnOf(name).busy(granted.busy, layers[at] as Digest);
        return;
      }
      const isWhole = await this.load(other, granted.turn, layerBytes, signal);
      if (isWhole) this.took(at);
    } finally {
      this.taken &= ~(1 << at);
      this.streams.set(name, 0);
      this.changed.notify();
    }
  }

  /** @returns false when the turn was lost */
  private async load(other: SimulatedNode, turn: Turn, sizeBytes: number, signal: AbortSignal): Promise<boolean> {
    const { clock, bytesPerSecond } = this.world;
    const both = [this, other];
    for (const one of both) one.active += 1;
    let left = sizeBytes;
    while (left > 0 && !turn.isTooSlow()) {
      const bytes = Math.min(left, CHUNK_BYTES);
      turn.add(bytes);
      await clock.sleep((1_000 * bytes * Math.max(this.active, other.active)) / bytesPerSecond, signal);
      left -= bytes;
    }
    turn.end();
    for (const one of both) one.active -= 1;
    this.lastMs.set(other.name, clock.monotonic());
    return left === 0;
  }

  private took(at: number): void {
    this.has |= 1 << at;
    this.isOffering = true;
    if (this.isDone()) this.doneMs = this.world.clock.monotonic();
    this.changed.notify();
    this.offers.notify();
  }

  private turnOf(name: string): PeerTurn {
    const { clock, random } = this.world;
    const other = this.nodeOf(name);
    const made = () => {
      const tryBlob = async (_digest: Digest, signal: AbortSignal) => {
        await this.connect(other, signal);
        const granted = other.served.request(this.name);
        if ('busy' in granted) throw busyError(name, granted.busy);
        granted.turn.end();
      };
      return new PeerTurn({ tryBlob, changed: () => this.changed.notify(), failed: () => undefined, clock, random });
    };
    const turn = this.turns.get(name) ?? made();
    this.turns.set(name, turn);
    return turn;
  }

  private nodeOf(name: string): SimulatedNode {
    const node = this.world.nodes[Number(name.slice('worker-'.length))];
    if (node === undefined) throw new Error(`there is no ${name}`);
    return node;
  }
}

/** What `sendWatched` needs of a response. */
class HeadOnly extends EventEmitter {
  readonly destroyed = false;
  body = '';
  etag = '';

  writeHead(_status: number, { etag }: { readonly etag: string }): this {
    this.etag = etag;
    return this;
  }

  end(body = ''): this {
    this.body = body;
    return this;
  }
}

function countOf(bits: number): number {
  let count = 0;
  for (let left = bits >>> 0; left !== 0; left = (left & (left - 1)) >>> 0) count += 1;
  return count;
}
