import type { FleetView, OfferedBundle, Peer } from '../../domain/fleet/node-status.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { MediaProvider, MediaSink, PluggedMedium } from '../../media/media-provider.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { plainText } from '../../platform/plain-text.ts';
import { Observable, type Unsubscribe } from '../../platform/subscription.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { OffersClient, WatchOptions } from '../wire/client.ts';
import { PeerBundle, type PeerClient, PeerTurn } from './peer-bundle.ts';

interface PeerMediaOptions {
  readonly fleet: FleetPort;
  readonly clientOf: (peer: string) => PeerClient;
  /** Has whoever knows the peers look at them anew. Default: there is no need. */
  readonly look?: (signal: AbortSignal) => Promise<void>;
  /** Whether this node needs a bundle of another one now. */
  readonly isWanted: (offered: OfferedBundle) => boolean;
  /** Documents on the node's own disk. */
  readonly own: BlobSource;
  readonly clock: Clock;
  readonly random: () => number;
  /** Shortest time between two reads of a peer whose blobs change, in milliseconds. Default 1 s. */
  readonly againMs?: number;
}

interface PluggedPeer {
  readonly mediumId: MediumId;
  readonly turn: PeerTurn;
  bundles: readonly OfferedBundle[];
  /** Changes with what is offered. */
  revision: string;
  /** The time of the last report, monotonic. */
  reportedAt: number;
  later: NodeJS.Timeout | undefined;
}

const AGAIN_MS = 1_000;

/**
 * Other nodes as media. Each peer with bundles that are needed is a medium `peer:<name>`. It is
 * read as a stick is, and judged with the keys of this node. A peer that does not answer, or offers
 * nothing that is needed any more, is gone.
 */
export class PeerMedia implements MediaProvider {
  private readonly peers = new Map<string, PluggedPeer>();
  private sink: MediaSink | undefined;
  private stop: Unsubscribe | undefined;

  constructor(private readonly options: PeerMediaOptions) {}

  async start(sink: MediaSink): Promise<void> {
    this.sink = sink;
    this.stop = this.options.fleet.onChange(() => this.reconsider());
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
    const wanted = new Map<string, readonly OfferedBundle[]>();
    for (const peer of view?.peers ?? []) {
      const bundles = peer.name === view?.self ? [] : this.neededOf(peer);
      if (bundles.length > 0) wanted.set(peer.name, bundles);
    }
    for (const name of [...this.peers.keys()]) if (!wanted.has(name)) this.leave(name);
    for (const [name, bundles] of wanted) {
      const revision = bundles.map((bundle) => `${bundle.bundleId} ${bundle.revision}`).join('\n');
      const known = this.peers.get(name);
      if (known === undefined) this.arrive(name, bundles, revision);
      else if (known.revision !== revision) this.change(known, bundles, revision);
    }
  }

  async dispose(): Promise<void> {
    this.stop?.();
    this.sink = undefined;
    for (const name of [...this.peers.keys()]) this.leave(name);
  }

  private neededOf({ bundles }: Peer): readonly OfferedBundle[] {
    return bundles.filter(this.options.isWanted);
  }

  private arrive(name: string, bundles: readonly OfferedBundle[], revision: string): void {
    const { clientOf, own, clock, random } = this.options;
    const mediumId: MediumId = `peer:${name}`;
    const client = clientOf(name);
    const turn = new PeerTurn({
      tryBlob: (digest, signal) => client.tryBlob(digest, signal),
      changed: () => this.sink?.turned?.(mediumId),
      clock,
      random,
    });
    const peer: PluggedPeer = { mediumId, turn, bundles, revision, reportedAt: clock.monotonic(), later: undefined };
    this.peers.set(name, peer);
    const label = plainText(name);
    const plugged: PluggedMedium = {
      mediumId,
      label,
      isDropFolder: false,
      peer: () => turn.state(),
      open: async () => ({
        place: label,
        findBundles: async () =>
          peer.bundles.map((offered) => new PeerBundle({ name: label, client, turn, own, clock }, offered)),
      }),
      isThere: async () => this.peers.get(name) === peer,
      release: async () => undefined,
    };
    this.sink?.arrived(plugged);
  }

  /** Reads a peer again, not too often: one that is being loaded itself has more every second. */
  private change(peer: PluggedPeer, bundles: readonly OfferedBundle[], revision: string): void {
    const { clock, againMs = AGAIN_MS } = this.options;
    peer.bundles = bundles;
    peer.revision = revision;
    if (peer.later !== undefined) return;
    const report = () => {
      peer.later = undefined;
      peer.reportedAt = clock.monotonic();
      this.sink?.changed(peer.mediumId);
    };
    const pauseMs = peer.reportedAt + againMs - clock.monotonic();
    if (pauseMs <= 0) report();
    else peer.later = setTimeout(report, pauseMs).unref();
  }

  private leave(name: string): void {
    const peer = this.peers.get(name);
    if (peer === undefined) return;
    this.peers.delete(name);
    clearTimeout(peer.later);
    peer.turn.close();
    this.sink?.left(peer.mediumId);
  }
}

/** Long poll in milliseconds. */
const WAIT_MS = 30_000;

/** Failures in a row before a log line: it may start later than the daemon. */
const LOGGED_AFTER = 4;

/** Between two answers. */
const LEAST_PAUSE_MS = 200;

/** Pauses after failures. */
const RETRY_PAUSES_MS = [500, 1_000, 2_000, 5_000, 15_000, 30_000] as const;

/**
 * Follows `/v1/fleet`. While it does not answer, no other node is known; the journal says so once.
 */
export class FleetWatch extends Observable implements FleetPort {
  private known: FleetView | undefined;
  private etag: string | undefined;
  private failures = 0;

  /** @param client on `peers.sock` */
  constructor(
    private readonly client: Pick<OffersClient, 'fleet'>,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly of = { process: 'fleet process', what: 'other nodes', unit: 'stickpin-fleet' },
  ) {
    super();
  }

  view(): FleetView | undefined {
    return this.known;
  }

  /** Until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.query(signal);
        await this.clock.sleep(LEAST_PAUSE_MS, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.failed(error);
        const pauseMs = RETRY_PAUSES_MS[Math.min(this.failures, RETRY_PAUSES_MS.length) - 1] ?? 0;
        await this.clock.sleep(pauseMs, signal).catch(() => undefined);
      }
    }
  }

  /** Never throws but an abort. */
  async look(signal: AbortSignal): Promise<void> {
    await this.query(signal, { isFresh: true }).catch(() => signal.throwIfAborted());
  }

  private async query(signal: AbortSignal, how: WatchOptions = { etag: this.etag, waitMs: WAIT_MS }): Promise<void> {
    const next = await this.client.fleet(how, signal);
    if (this.failures >= LOGGED_AFTER) this.log.info({}, `The ${this.of.process} answers`);
    this.failures = 0;
    if (next === undefined) return;
    const { version: _version, ...view } = next.document;
    [this.known, this.etag] = [view, next.etag];
    this.notify();
  }

  private failed(error: unknown): void {
    this.failures += 1;
    if (this.failures === LOGGED_AFTER) {
      this.log.warn(
        { err: error },
        `${reasonOf(error)}; nothing comes from ${this.of.what}, see systemctl status ${this.of.unit}`,
      );
    }
    const wasKnown = this.known !== undefined;
    [this.known, this.etag] = [undefined, undefined];
    if (wasKnown) this.notify();
  }
}
