import type { OfferedBundle, Peer } from '../../domain/fleet/node-status.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { OffersClient } from '../../offers/client/client.ts';
import type { Clock } from '../../platform/clock.ts';
import { plainText } from '../../platform/plain-text.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { MediaProvider, MediaSink, PluggedMedium } from '../media-provider.ts';
import { peerBundle } from './peer-bundle.ts';
import { createPeerTurn, type PeerTurn } from './peer-turn.ts';

interface PeerMediaOptions {
  readonly fleet: FleetPort;
  readonly clientOf: (peer: string) => OffersClient;
  /** Whether this node needs a bundle of another one now. */
  readonly isWanted: (offered: OfferedBundle) => boolean;
  /** Documents on the node's own disk. */
  readonly own: BlobSource;
  readonly clock: Clock;
  readonly random: () => number;
  /** Shortest time between two looks at a peer whose blobs change, in milliseconds. Default 1 s. */
  readonly againMs?: number;
}

/** Other nodes as media. */
export interface PeerMedia extends MediaProvider {
  /** Call when what this node needs may have changed. */
  reconsider(): void;
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

interface Watch extends PeerMediaOptions {
  readonly peers: Map<string, PluggedPeer>;
  sink: MediaSink | undefined;
  stop: Unsubscribe | undefined;
}

const AGAIN_MS = 1_000;

/**
 * Each peer with bundles that are needed is a medium `peer:<name>`. It is read as a stick is, and
 * judged with the keys of this node. A peer that does not answer, or offers nothing that is needed
 * any more, is gone.
 */
export function createPeerMedia(options: PeerMediaOptions): PeerMedia {
  const watch: Watch = { ...options, peers: new Map(), sink: undefined, stop: undefined };
  return {
    start: async (sink) => {
      watch.sink = sink;
      watch.stop = watch.fleet.onChange(() => follow(watch));
      follow(watch);
    },
    rescan: async () => follow(watch),
    reconsider: () => follow(watch),
    dispose: async () => {
      watch.stop?.();
      watch.sink = undefined;
      for (const name of [...watch.peers.keys()]) forget(watch, name);
    },
  };
}

function follow(watch: Watch): void {
  if (watch.sink === undefined) return;
  const view = watch.fleet.view();
  const wanted = new Map<string, readonly OfferedBundle[]>();
  for (const peer of view?.peers ?? []) {
    const bundles = peer.name === view?.self || peer.trouble !== undefined ? [] : neededOf(peer, watch);
    if (bundles.length > 0) wanted.set(peer.name, bundles);
  }
  for (const name of [...watch.peers.keys()]) if (!wanted.has(name)) forget(watch, name);
  for (const [name, bundles] of wanted) {
    const revision = bundles.map((bundle) => `${bundle.bundleId} ${bundle.revision}`).join('\n');
    const known = watch.peers.get(name);
    if (known === undefined) arrive(watch, name, bundles, revision);
    else if (known.revision !== revision) change(watch, known, bundles, revision);
  }
}

function neededOf({ bundles }: Peer, { isWanted }: Watch): readonly OfferedBundle[] {
  return bundles.filter(isWanted);
}

function arrive(watch: Watch, name: string, bundles: readonly OfferedBundle[], revision: string): void {
  const { clientOf, own, clock, random } = watch;
  const mediumId: MediumId = `peer:${name}`;
  const client = clientOf(name);
  const turn = createPeerTurn({
    ask: (digest, signal) => client.ask(digest, signal),
    changed: () => watch.sink?.turned?.(mediumId),
    clock,
    random,
  });
  const peer: PluggedPeer = { mediumId, turn, bundles, revision, reportedAt: clock.monotonic(), later: undefined };
  watch.peers.set(name, peer);
  const label = plainText(name);
  const plugged: PluggedMedium = {
    mediumId,
    label,
    isDropFolder: false,
    peer: turn.state,
    open: async () => ({
      place: label,
      findBundles: async () =>
        peer.bundles.map((offered) => peerBundle({ name: label, client, turn, own, clock }, offered)),
    }),
    isThere: async () => watch.peers.get(name) === peer,
    release: async () => undefined,
  };
  watch.sink?.arrived(plugged);
}

/** Reads a peer again, not too often: one that is being loaded itself has more every second. */
function change(watch: Watch, peer: PluggedPeer, bundles: readonly OfferedBundle[], revision: string): void {
  const { clock, againMs = AGAIN_MS } = watch;
  peer.bundles = bundles;
  peer.revision = revision;
  if (peer.later !== undefined) return;
  const report = () => {
    peer.later = undefined;
    peer.reportedAt = clock.monotonic();
    watch.sink?.changed(peer.mediumId);
  };
  const pauseMs = peer.reportedAt + againMs - clock.monotonic();
  if (pauseMs <= 0) report();
  else peer.later = setTimeout(report, pauseMs).unref();
}

function forget(watch: Watch, name: string): void {
  const peer = watch.peers.get(name);
  if (peer === undefined) return;
  watch.peers.delete(name);
  clearTimeout(peer.later);
  peer.turn.close();
  watch.sink?.left(peer.mediumId);
}
