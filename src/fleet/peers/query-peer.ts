import type { IncomingMessage, ServerResponse } from 'node:http';
import type { NodeStatus, ReleaseStatus } from '../../domain/fleet/node-status.ts';
import type { ActivationHold } from '../../domain/gates/gates.ts';
import type { Phase } from '../../domain/model/phase.ts';
import type { ImageReason, MediaReason, Reason } from '../../domain/model/reason.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { sendWatched, type WatchedDocument } from '../../offers/client/fleet-watch.ts';
import { type OffersDocument, parsePeerPath, parseWirePath, wirePaths } from '../../offers/documents.ts';
import { answerSafely, relay } from '../../offers/server/handler.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { respondJson } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { type Listeners, notifyAll } from '../../platform/subscription.ts';
import type { Cluster, WarnOnce } from '../trouble.ts';
import {
  type KnownPeer,
  nameOf,
  type PeerStore,
  type Peers,
  type PeerWays,
  type RememberedNodes,
  rememberPeer,
} from './peer.ts';

export interface PeersOptions extends PeerWays {
  readonly settings: Pick<Settings['fleet'], 'peers' | 'activate'>;
  readonly cluster: Pick<Cluster, 'self' | 'nodes' | 'trouble' | 'onChange'>;
  readonly store: PeerStore;
  readonly warnings: WarnOnce;
  readonly ownStatus: () => NodeStatus | undefined;
}

/** All known peers, and how they are queried. */
export interface PeerPool extends PeersOptions, Pick<RememberedNodes, 'inTurn' | 'stored'> {
  /** By `formatEndpoint()`. */
  readonly byAddress: Map<string, KnownPeer>;
  readonly listeners: Listeners;
  /** Its abort starts the loop's next pass. */
  wake: AbortController;
}

/** Long poll, in milliseconds. */
const WAIT_MS = 30_000;

/** After a long poll, in milliseconds: a peer may have news at any time. */
const WAITED_PAUSE_MS = 500;

/**
 * Queries the offers of a peer. Never throws.
 *
 * @param waits whether the peer may hold its answer until it has news
 */
export async function queryPeer(pool: PeerPool, peer: KnownPeer, waits: boolean, signal: AbortSignal): Promise<void> {
  peer.isAsked = true;
  peer.isWaitedFor = waits;
  try {
    const answer = await peer.client.offers({ etag: peer.etag, waitMs: waits ? WAIT_MS : 0 }, signal);
    answered(pool, peer, answer);
    if (waits && isNewsWanted(pool, peer)) peer.nextQueryMs = pool.clock.monotonic() + WAITED_PAUSE_MS;
    await rememberPeer(pool, peer, signal);
  } catch (error) {
    if (!signal.aborted) fail(pool, peer, error);
  } finally {
    peer.isAsked = false;
    peer.isWaitedFor = false;
  }
}

/**
 * Whether this node waits for others, or follows a peer that does and that the Kubernetes API does
 * not announce: any node may be queried for the progress of all.
 */
export function isNewsWanted({ ownStatus, settings }: PeerPool, { target, status }: KnownPeer): boolean {
  const isOrdered = settings.activate === 'ordered';
  return isNeedy(ownStatus(), isOrdered) || (!target.isAnnounced && isNeedy(status, isOrdered));
}

/** The same cause is logged once. */
export function fail(pool: PeerPool, peer: KnownPeer, error: unknown): void {
  const trouble = `${reasonOf(error)}${hintOf(pool, peer, error)}`;
  const code = error instanceof AppError ? error.code : 'unknown';
  const name = nameOf(peer);
  pool.warnings.warn(
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
  schedule(pool, peer);
  if (isNews) notifyAll(pool.listeners);
}

/** The end that is called refuses without a word. */
function hintOf({ identity }: PeerPool, { hasAnswered }: KnownPeer, error: unknown): string {
  const isClosed = error instanceof AppError && systemCodeOf(error.cause) === 'ECONNRESET';
  if (!isClosed || hasAnswered || identity === undefined) return '';
  return '; it may refuse the certificate of this node, and its journal says why';
}

export function pauseNow(pool: PeerPool, peer: KnownPeer): number {
  const { quiet, trouble, target } = peer;
  const { isAnnounced } = target;
  return pauseOf({ quiet, hasFailed: trouble !== undefined, isAnnounced, isNeedy: isNewsWanted(pool, peer) });
}

function answered(
  pool: PeerPool,
  peer: KnownPeer,
  answer: { document: OffersDocument; etag: string | undefined } | undefined,
) {
  const isNews = answer !== undefined || peer.trouble !== undefined || !peer.hasAnswered;
  if (answer !== undefined) {
    peer.bundles = answer.document.bundles;
    peer.status = answer.document.node?.status;
    peer.etag = answer.etag;
    if (pool.identity === undefined) peer.node = answer.document.node?.name;
  }
  peer.statusAtMs = pool.clock.monotonic();
  peer.quiet = isNews ? 1 : peer.quiet + 1;
  peer.trouble = undefined;
  peer.hasAnswered = true;
  pool.warnings.over(nameOf(peer));
  pool.onHeard(nameOf(peer));
  schedule(pool, peer);
  if (isNews) notifyAll(pool.listeners);
}

function schedule(pool: PeerPool, peer: KnownPeer): void {
  const jitter = 0.9 + Math.random() * 0.2;
  peer.nextQueryMs = pool.clock.monotonic() + jitter * pauseNow(pool, peer);
}

interface DaemonAnswers {
  readonly fleet: WatchedDocument;
  readonly peers: Pick<Peers, 'find' | 'failed'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Answers on `peers.sock`. Never rejects. */
export async function answerDaemon(
  request: IncomingMessage,
  response: ServerResponse,
  { fleet, peers, clock, log }: DaemonAnswers,
): Promise<void> {
  const [target = ''] = (request.url ?? '').split('?', 1);
  await answerSafely(request, response, log, async () => {
    if (target === wirePaths.fleet) return sendWatched(request, response, { document: fleet, clock });
    const asked = parsePeerPath(target);
    const peer = asked && peers.find(asked.peer);
    if (asked === undefined || peer === undefined || parseWirePath(asked.path).kind === 'unknown') {
      return respondJson(response, 404, { error: 'there is no such peer, or it is not asked for that' });
    }
    await passOn(request, response, { peer, path: asked.path, peers });
  });
}

async function passOn(
  request: IncomingMessage,
  response: ServerResponse,
  { peer, path, peers }: { readonly peer: KnownPeer; readonly path: string } & Pick<DaemonAnswers, 'peers'>,
): Promise<void> {
  try {
    await relay(request, response, { connection: peer.connection, path });
  } catch (error) {
    if (!response.destroyed) peers.failed(peer, error);
    throw error;
  }
}

/** Pauses after failures and answers without news, in milliseconds; the last one repeats. */
const PAUSES_MS = [5_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000];

/** While this node needs something. */
const NEEDY_MS = 30_000;

/** Images that were complete can be missing again. */
const KEPT: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

interface QueryState {
  /** Failures or answers without news in a row. */
  readonly quiet: number;
  readonly hasFailed: boolean;
  /** The Kubernetes API announces news. */
  readonly isAnnounced: boolean;
  readonly isNeedy: boolean;
}

/** In milliseconds; infinite while the Kubernetes API announces news. */
export function pauseOf({ quiet, hasFailed, isAnnounced, isNeedy }: QueryState): number {
  if (isAnnounced && !hasFailed && !isNeedy) return Number.POSITIVE_INFINITY;
  const pause = PAUSES_MS[Math.min(Math.max(quiet, 1), PAUSES_MS.length) - 1] ?? 0;
  return isNeedy ? Math.min(pause, NEEDY_MS) : pause;
}

/** Of kept releases: images are missing, and another node may have them. */
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

/** A person or this node ends these; no other node can. */
const OWN_REASONS: ReadonlySet<string> = new Set<ActivationHold['code'] | Reason['code']>([
  'engine/manual',
  'engine/denied',
  'engine/cancelled',
  'engine/below-floor',
  'engine/floor-unknown',
  'engine/tag-of-other-stream',
  'engine/rolled-back',
  'engine/no-space',
  'rule/deadend',
  'rule/downgrade',
  'rule/end-of-life',
  'runtime/unreachable',
  'runtime/unlisted',
  'runtime/version',
]);

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
  return phase === 'held' || (phase === 'ready' && isOrdered);
}
