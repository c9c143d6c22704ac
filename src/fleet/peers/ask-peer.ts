import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import type { OffersDocument } from '../../offers/documents.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { type Listeners, notifyAll } from '../../platform/subscription.ts';
import type { Cluster } from '../cluster.ts';
import type { TellOnce } from '../tell-once.ts';
import { isNeedy, pauseOf } from './next-ask.ts';
import { type KnownPeer, nameOf, type PeerWays } from './peer.ts';
import { type RememberedNodes, rememberPeer } from './remember.ts';
import type { PeerStore } from './stored-peers.ts';

/** The adapters of peers. */
export interface PeersOptions extends PeerWays {
  readonly settings: Pick<Settings['fleet'], 'peers' | 'activate'>;
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble' | 'onChange'>;
  readonly store: PeerStore;
  readonly tell: TellOnce;
  readonly ownStatus: () => NodeStatus | undefined;
}

/** All known peers, and what they are asked with. */
export interface Crowd extends PeersOptions, Pick<RememberedNodes, 'inTurn' | 'stored'> {
  /** By `formatEndpoint()` of their endpoint. */
  readonly byAddress: Map<string, KnownPeer>;
  readonly listeners: Listeners;
  /** Aborted to have the loop look again. */
  wake: AbortController;
}

/** How long a peer may hold its answer until it has news, in milliseconds. */
const WAIT_MS = 30_000;

/** The pause after an answer that was held, in milliseconds: a peer may have news at any time. */
const WAITED_PAUSE_MS = 500;

/**
 * Asks a peer what it offers. Never throws.
 *
 * @param waits whether the peer may hold its answer until it has news
 */
export async function askPeer(crowd: Crowd, peer: KnownPeer, waits: boolean, signal: AbortSignal): Promise<void> {
  peer.isAsked = true;
  peer.isWaitedFor = waits;
  try {
    const answer = await peer.client.offers({ etag: peer.etag, waitMs: waits ? WAIT_MS : 0 }, signal);
    answered(crowd, peer, answer);
    if (waits && isNewsWanted(crowd, peer)) peer.nextAskMs = crowd.clock.monotonic() + WAITED_PAUSE_MS;
    await rememberPeer(crowd, peer, signal);
  } catch (error) {
    if (!signal.aborted) fail(crowd, peer, error);
  } finally {
    peer.isAsked = false;
    peer.isWaitedFor = false;
  }
}

/**
 * Whether this node waits for something that other nodes have or tell, or follows a peer that does
 * and of which the Kubernetes API tells nothing: people ask any node how far all of them are.
 */
export function isNewsWanted({ ownStatus, settings }: Crowd, { target, status }: KnownPeer): boolean {
  const isOrdered = settings.activate === 'ordered';
  return isNeedy(ownStatus(), isOrdered) || (!target.isAnnounced && isNeedy(status, isOrdered));
}

/** Notes that a request to a peer failed. The same cause is told once. */
export function fail(crowd: Crowd, peer: KnownPeer, error: unknown): void {
  const trouble = `${reasonOf(error)}${hintOf(crowd, peer, error)}`;
  const code = error instanceof AppError ? error.code : 'unknown';
  const name = nameOf(peer);
  crowd.tell.warn(
    name,
    code,
    { err: error, peer: name, messageId: messageIds.peerAway },
    `Nothing comes from ${name}: ${trouble}`,
  );
  const isNews = peer.trouble !== trouble;
  peer.quiet = peer.trouble === undefined ? 1 : peer.quiet + 1;
  peer.trouble = trouble;
  peer.etag = undefined;
  peer.bundles = [];
  schedule(crowd, peer);
  if (isNews) notifyAll(crowd.listeners);
}

/** The end that is called refuses without a word. */
function hintOf({ identity }: Crowd, { hasAnswered }: KnownPeer, error: unknown): string {
  const isClosed = error instanceof AppError && systemCodeOf(error.cause) === 'ECONNRESET';
  if (!isClosed || hasAnswered || identity === undefined) return '';
  return '; it may refuse the certificate of this node, and its journal says why';
}

/** How long a peer is left alone, as things are. */
export function pauseNow(crowd: Crowd, peer: KnownPeer): number {
  const { quiet, trouble, target } = peer;
  const { isAnnounced } = target;
  return pauseOf({ quiet, hasFailed: trouble !== undefined, isAnnounced, isNeedy: isNewsWanted(crowd, peer) });
}

function answered(
  crowd: Crowd,
  peer: KnownPeer,
  answer: { document: OffersDocument; etag: string | undefined } | undefined,
) {
  const isNews = answer !== undefined || peer.trouble !== undefined || !peer.hasAnswered;
  if (answer !== undefined) {
    peer.bundles = answer.document.bundles;
    peer.status = answer.document.node?.status;
    peer.etag = answer.etag;
    if (crowd.identity === undefined) peer.node = answer.document.node?.name;
  }
  peer.statusAtMs = crowd.clock.monotonic();
  peer.quiet = isNews ? 1 : peer.quiet + 1;
  peer.trouble = undefined;
  peer.hasAnswered = true;
  crowd.tell.over(nameOf(peer));
  crowd.onHeard(nameOf(peer));
  schedule(crowd, peer);
  if (isNews) notifyAll(crowd.listeners);
}

function schedule(crowd: Crowd, peer: KnownPeer): void {
  const jitter = 0.9 + Math.random() * 0.2;
  peer.nextAskMs = crowd.clock.monotonic() + jitter * pauseNow(crowd, peer);
}
