import {
  chosenGivers,
  type GiverRank,
  givesTooLittle,
  JUDGED_MS,
  LEAST_BYTES,
  newRank,
} from '../../domain/fleet/givers.ts';
import { type FleetView, LEFT_OUT, type OfferedBundle, type Peer } from '../../domain/fleet/node-status.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { MediaProvider, MediaSink, MediumBundle, PluggedMedium } from '../../media/media-provider.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { Alarm } from '../../platform/async/alarm.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { plainText } from '../../platform/plain-text.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { OffersClient, Watched, WatchOptions } from '../wire/client.ts';
import type { FleetDocument } from '../wire/documents.ts';
import { exclusionText } from '../wire/peer-budgets.ts';
import { Poller } from '../wire/poller.ts';
import type { BoundedOffers } from './bounded-offers.ts';
import { PeerBundle, type PeerClient, PeerTurn } from './peer-bundle.ts';

interface PeerMediaOptions {
  readonly fleet: FleetPort;
  readonly clientOf: (peer: string) => PeerClient;
  /** Has whoever knows the peers look at them anew. Default: there is no need. */
  readonly look?: (signal: AbortSignal) => Promise<void>;
  /** Whether this node needs a bundle of another one now. */
  readonly isWanted: (offered: OfferedBundle) => boolean;
  /** Documents on the node's own disk. */
  readonly ownBlobs: BlobSource;
  readonly clock: Clock;
  readonly random: () => number;
  /** Default: no limits, as for places that the settings name. */
  readonly bounds?: BoundedOffers;
  /** Shortest time between two reads of a peer whose blobs change, in milliseconds. Default 1 s. */
  readonly againMs?: number;
}

/** `leftOut`: why nothing is taken from the peer now. */
interface Needed {
  readonly bundles: readonly OfferedBundle[];
  readonly leftOut?: string | undefined;
}

interface PluggedPeer {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly turn: PeerTurn;
  needed: Needed;
  /** Changes with what is offered. */
  revision: string;
  /** The time of the last report, monotonic. */
  reportedAt: number;
  /** The time, monotonic, and the bytes given until then, from which it is judged. */
  judged: { readonly ms: number; readonly bytes: number };
  readonly later: Alarm;
}

const AGAIN_MS = 1_000;

const NOTHING: Needed = { bundles: [] };

/** Shown in the place of all bundles of a peer. */
function leftOutBundle(message: string): MediumBundle {
  return { kind: 'unreadable', path: 'everything', reason: { code: LEFT_OUT, message } };
}

/**
 * Other nodes as media `peer:<name>`: of the peers with bundles that are needed, those that
 * {@link chosenGivers} names. They are read as a stick is, and judged with the keys of this node. A
 * peer that does not answer, or offers nothing that is needed any more, is gone.
 */
export class PeerMedia implements MediaProvider {
  private readonly peers = new Map<string, PluggedPeer>();
  /** Peers that are no media have an entry, too. */
  private needs: ReadonlyMap<string, Needed> = new Map();
  private readonly ranks = new Map<string, GiverRank>();
  /** When a peer that is left out is read again. */
  private readonly again: Alarm;
  private readonly judging: Alarm;
  private bundles: StatusReport['bundles'] = [];
  private sink: MediaSink | undefined;
  private stop: Unsubscribe | undefined;

  constructor(private readonly options: PeerMediaOptions) {
    this.again = new Alarm(options.clock, () => this.reconsider());
    this.judging = new Alarm(options.clock, () => this.judge());
  }

  async start(sink: MediaSink): Promise<void> {
    this.sink = sink;
    this.stop = this.options.fleet.onChange(() => this.reconsider());
    this.judging.set(this.options.clock.monotonic() + JUDGED_MS);
    this.reconsider();
  }

  async rescan(signal: AbortSignal): Promise<void> {
    await this.options.look?.(signal);
    this.reconsider();
  }

  /** Call when what this node needs may have changed. */
  reconsider(): void {
    if (this.sink === undefined) return;
    const view = this.options.fleet.view();
    const needs = new Map<string, Needed>();
    for (const peer of view?.peers ?? []) {
      const needed = peer.name === view?.self ? NOTHING : this.neededOf(peer);
      if (needed.bundles.length > 0 || needed.leftOut !== undefined) needs.set(peer.name, needed);
    }
    this.follow(needs);
    const givers = [...needs].map(([name, { bundles, leftOut }]) => ({
      name,
      bundles: leftOut === undefined ? bundles : [{ bundleId: LEFT_OUT, isWhole: true }],
      rank: this.rankOf(name),
    }));
    const chosen = chosenGivers(givers);
    for (const name of [...this.peers.keys()]) if (!chosen.has(name)) this.leave(name);
    for (const name of chosen) {
      const needed = needs.get(name) ?? NOTHING;
      const offered = needed.bundles.map((bundle) => `${bundle.bundleId} ${bundle.revision}`).join('\n');
      const revision = needed.leftOut ?? offered;
      const known = this.peers.get(name);
      if (known === undefined) this.arrive(name, needed, revision);
      else if (known.revision !== revision) this.change(known, needed, revision);
    }
    const ends = [...needs.keys()].flatMap((name) => this.options.bounds?.exclusion(name)?.endsMs ?? []);
    this.again.set(ends.length === 0 ? undefined : Math.min(...ends));
  }

  /** Call with each report: what it shows of peers counts against them. */
  reported(report: Pick<StatusReport, 'rejected' | 'bundles'>): void {
    const { bounds } = this.options;
    this.bundles = report.bundles;
    for (const [name, { label, needed }] of this.peers) {
      bounds?.reported(name, label, report);
      if (needed.leftOut === undefined && bounds?.exclusion(name) !== undefined) this.reconsider();
    }
  }

  /** Call when bundles may be judged in another way. */
  judgedAnew(): void {
    const { bounds } = this.options;
    for (const [name, peer] of this.peers) if (bounds?.forgetRefusals(name) === true) this.readAgain(peer);
  }

  async dispose(): Promise<void> {
    this.stop?.();
    this.sink = undefined;
    for (const name of [...this.peers.keys()]) this.leave(name);
    this.again.set(undefined);
    this.judging.set(undefined);
  }

  /** A peer that comes and goes is charged, not one that this node chooses in turn. */
  private follow(needs: ReadonlyMap<string, Needed>): void {
    const { bounds } = this.options;
    for (const name of this.needs.keys()) if (!needs.has(name)) bounds?.hide(name);
    for (const name of needs.keys()) if (!this.needs.has(name)) bounds?.arrived(name);
    this.needs = needs;
    if (needs.size === 0) this.ranks.clear();
  }

  private rankOf(name: string): GiverRank {
    const rank = this.ranks.get(name) ?? newRank(this.options.fleet.view()?.self ?? '', name);
    this.ranks.set(name, rank);
    return rank;
  }

  /** A peer that fails makes room for another one, if there is any. */
  private strike(name: string): void {
    const rank = this.rankOf(name);
    this.ranks.set(name, { ...rank, strikes: rank.strikes + 1 });
    if (this.needs.size > this.peers.size) this.reconsider();
  }

  /** A peer that gives too little without a failure makes room too, while something is sought. */
  private judge(): void {
    const nowMs = this.options.clock.monotonic();
    this.judging.set(nowMs + JUDGED_MS);
    const isCrowded = this.needs.size > this.peers.size;
    for (const [name, peer] of [...this.peers]) {
      const { judged, turn } = peer;
      const isSought = isCrowded && peer.needed.bundles.some((offered) => this.isSought(offered));
      const bytes = turn.givenBytes - judged.bytes;
      const isQueued = turn.state().queue !== undefined;
      const isStruck = isSought && givesTooLittle({ ms: nowMs - judged.ms, bytes, isQueued });
      if (isSought && !isStruck && bytes < LEAST_BYTES) continue;
      peer.judged = { ms: nowMs, bytes: turn.givenBytes };
      if (isStruck) this.strike(name);
    }
  }

  /** Whether this node waits for nothing but media before it takes more of a bundle. */
  private isSought({ bundleId }: OfferedBundle): boolean {
    const hold = this.bundles.find((bundle) => bundle.bundleId === bundleId)?.hold;
    return hold === undefined || hold === 'media';
  }

  private neededOf({ name, bundles, leftOut }: Peer): Needed {
    const { bounds, isWanted } = this.options;
    if (leftOut !== undefined) return { bundles: [], leftOut };
    const exclusion = bounds?.exclusion(name);
    if (exclusion === undefined) return { bundles: bundles.filter(isWanted) };
    return { bundles: [], leftOut: exclusionText(exclusion) };
  }

  private arrive(name: string, needed: Needed, revision: string): void {
    const { clientOf, clock, random } = this.options;
    const mediumId: MediumId = `peer:${name}`;
    const client = clientOf(name);
    const turn = new PeerTurn({
      tryBlob: (digest, signal) => client.tryBlob(digest, signal),
      changed: () => this.sink?.turned?.(mediumId),
      failed: () => this.strike(name),
      clock,
      random,
      failures: this.rankOf(name).strikes,
    });
    const label = plainText(name);
    const later = new Alarm(clock, () => this.report(peer));
    const nowMs = clock.monotonic();
    const judged = { ms: nowMs, bytes: 0 };
    const peer: PluggedPeer = { mediumId, label, turn, needed, revision, reportedAt: nowMs, judged, later };
    this.peers.set(name, peer);
    const plugged: PluggedMedium = {
      mediumId,
      label,
      isDropFolder: false,
      peer: () => turn.state(),
      distrusted: () => this.strike(name),
      tooSlow: () => turn.failed(),
      open: async () => ({ place: label, findBundles: async () => this.bundlesOf(name, peer, client) }),
      isThere: async () => this.peers.get(name) === peer,
      release: async () => undefined,
    };
    this.sink?.arrived(plugged);
  }

  private bundlesOf(name: string, peer: PluggedPeer, client: PeerClient): readonly MediumBundle[] {
    const { ownBlobs, clock, bounds } = this.options;
    const { bundles, leftOut } = peer.needed;
    if (leftOut !== undefined) return [leftOutBundle(leftOut)];
    const selection = bounds === undefined ? { bundles, refused: [], isCut: false } : bounds.select(name, bundles);
    if (selection === undefined) {
      this.reconsider();
      return peer.needed.leftOut === undefined ? [] : [leftOutBundle(peer.needed.leftOut)];
    }
    if (selection.isCut) this.readAgain(peer);
    const access = { name: peer.label, client, turn: peer.turn, ownBlobs, clock };
    return [
      ...selection.bundles.map((offered) => new PeerBundle(access, offered)),
      ...selection.refused.map(({ path, reason }) => ({ kind: 'unreadable', path, reason }) as const),
    ];
  }

  /** Reads a peer again, not too often: one that is being loaded itself has more every second. */
  private change(peer: PluggedPeer, needed: Needed, revision: string): void {
    peer.needed = needed;
    peer.revision = revision;
    this.readAgain(peer);
  }

  private readAgain(peer: PluggedPeer): void {
    const { clock, againMs = AGAIN_MS } = this.options;
    const atMs = peer.reportedAt + againMs;
    if (clock.monotonic() >= atMs) this.report(peer);
    else peer.later.set(atMs);
  }

  private report(peer: PluggedPeer): void {
    peer.later.set(undefined);
    peer.reportedAt = this.options.clock.monotonic();
    this.sink?.changed(peer.mediumId);
  }

  private leave(name: string): void {
    const peer = this.peers.get(name);
    if (peer === undefined) return;
    this.peers.delete(name);
    peer.later.set(undefined);
    peer.turn.close();
    this.sink?.left(peer.mediumId);
  }
}

/** Failures in a row before a log line: it may start later than the daemon. */
const LOGGED_AFTER = 4;

/** A restart, or a slow boot, is over by then. */
const SILENT_MS = 5 * 60_000;

/**
 * Follows `/v1/fleet`. While it does not answer, no other node is known; the journal says so once.
 */
export class FleetWatch extends Poller<FleetDocument> implements FleetPort {
  private known: FleetView | undefined;
  private failures = 0;
  private answeredMs: number;

  /** @param client on `peers.sock` */
  constructor(
    private readonly client: Pick<OffersClient, 'fleet'>,
    clock: Clock,
    private readonly log: Log,
    private readonly of = { process: 'fleet process', what: 'other nodes', unit: 'stickpin-fleet' },
  ) {
    super(clock);
    this.answeredMs = clock.monotonic();
  }

  view(): FleetView | undefined {
    return this.known;
  }

  isSilent(): boolean {
    return this.clock.monotonic() - this.answeredMs >= SILENT_MS;
  }

  /** Never throws but an abort. */
  async look(signal: AbortSignal): Promise<void> {
    await this.read(signal, { isFresh: true }).catch(() => signal.throwIfAborted());
  }

  protected request(watch: WatchOptions, signal: AbortSignal): Promise<Watched<FleetDocument> | undefined> {
    return this.client.fleet(watch, signal);
  }

  protected answered(document: FleetDocument | undefined): void {
    if (this.failures >= LOGGED_AFTER) this.log.info({}, `The ${this.of.process} answers`);
    this.failures = 0;
    this.answeredMs = this.clock.monotonic();
    if (document === undefined) return;
    const { version: _version, ...view } = document;
    this.known = view;
    this.notify();
  }

  protected failed(error: unknown): void {
    this.failures += 1;
    const { what, unit } = this.of;
    if (this.failures === LOGGED_AFTER) {
      this.log.warn({ err: error }, `${reasonOf(error)}; nothing comes from ${what}, see systemctl status ${unit}`);
    }
    const wasKnown = this.known !== undefined;
    this.known = undefined;
    if (wasKnown) this.notify();
  }
}
