import type { Peer } from '../../domain/fleet/node-status.ts';
import { formatEndpoint } from '../../domain/settings/value-types.ts';
import { withEither } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { listen, notifyAll } from '../../platform/subscription.ts';
import {
  createPeer,
  isComplete,
  type KnownPeer,
  nameOf,
  type Peers,
  type ReceivedStatus,
  rememberNodes,
  type Target,
} from './peer.ts';
import { fail, isNewsWanted, type PeerPool, type PeersOptions, pauseNow, queryPeer } from './query-peer.ts';
import { targetsOf } from './targets.ts';

const AT_ONCE = 8;

/**
 * Long polls while this node needs something. The rest of a large cluster is queried every half
 * minute.
 */
const HELD_AT_ONCE = 4;

/** Nodes see a change at once and spread their queries. */
const SPREAD_MS = 1_000;

const LOOK_MS = 5_000;

export function createPeers(options: PeersOptions): Peers {
  const pool: PeerPool = {
    ...options,
    byAddress: new Map(),
    listeners: new Set(),
    inTurn: oneAtATime(),
    stored: [],
    wake: new AbortController(),
  };
  return {
    list: () => [...shown(pool).values()].map(viewOf),
    find: (name) => shown(pool).get(name),
    statuses: () => statusesOf(pool),
    nodeNames: () => nodeNames(pool),
    failed: (peer, error) => fail(pool, peer, error),
    look: () => pool.wake.abort(),
    onChange: (listener) => listen(pool.listeners, listener),
    load: async (signal) => {
      pool.stored = await pool.store.load(signal);
    },
    run: (signal) => run(pool, signal),
  };
}

/** One of each name: a node may answer at several addresses. */
function shown({ byAddress, cluster }: PeerPool): ReadonlyMap<string, KnownPeer> {
  const byName = new Map<string, KnownPeer>();
  for (const peer of byAddress.values()) {
    const name = nameOf(peer);
    const other = byName.get(name);
    const isBetter = other === undefined || (other.trouble !== undefined && peer.trouble === undefined);
    if (isBetter && name !== cluster.self()) byName.set(name, peer);
  }
  return new Map([...byName].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function statusesOf(pool: PeerPool): ReadonlyMap<string, ReceivedStatus> {
  const received = [...shown(pool)].filter(([, { status }]) => status !== undefined);
  return new Map(received.map(([name, { status, statusAtMs }]) => [name, { status, atMs: statusAtMs }]));
}

function nodeNames(pool: PeerPool): readonly string[] {
  const asked = [...shown(pool).values()].flatMap(({ target, node }) => target.name ?? node ?? []);
  const stored = pool.stored.map(({ name }) => name).filter((name) => name !== pool.cluster.self());
  return [...new Set([...asked, ...stored])];
}

function viewOf(peer: KnownPeer): Peer {
  const trouble = peer.trouble ?? (peer.hasAnswered ? undefined : 'it was not asked yet');
  return {
    name: nameOf(peer),
    address: formatEndpoint(peer.target.endpoint),
    ...(trouble !== undefined && { trouble }),
    bundles: peer.bundles,
  };
}

async function run(pool: PeerPool, signal: AbortSignal): Promise<void> {
  const unsubscribe = pool.cluster.onChange(() => pool.wake.abort());
  const running = new Set<Promise<void>>();
  try {
    while (!signal.aborted) {
      pool.wake = new AbortController();
      follow(pool);
      await rememberNodes(pool, signal).catch(() => undefined);
      for (const peer of due(pool).slice(0, Math.max(0, AT_ONCE - running.size))) {
        const one = queryPeer(pool, peer, mayWait(pool, peer), signal).finally(() => {
          running.delete(one);
          pool.wake.abort();
        });
        running.add(one);
      }
      await pause(pool, signal);
    }
  } finally {
    unsubscribe();
    await Promise.all(running);
    for (const { connection } of pool.byAddress.values()) connection.close();
  }
}

function mayWait(pool: PeerPool, peer: KnownPeer): boolean {
  const held = [...pool.byAddress.values()].filter(({ isWaitedFor }) => isWaitedFor).length;
  const { hasAnswered, trouble } = peer;
  return hasAnswered && trouble === undefined && held < HELD_AT_ONCE && isNewsWanted(pool, peer);
}

async function pause(pool: PeerPool, signal: AbortSignal): Promise<void> {
  const next = [...pool.byAddress.values()].filter((one) => !one.isAsked).map((one) => one.nextQueryMs);
  const ms = Math.min(LOOK_MS, Math.max(10, Math.min(...next) - pool.clock.monotonic()));
  await withEither([signal, pool.wake.signal], (either) => pool.clock.sleep(ms, either)).catch(() => undefined);
}

function due({ byAddress, clock }: PeerPool): KnownPeer[] {
  const nowMs = clock.monotonic();
  return [...byAddress.values()]
    .filter((peer) => !peer.isAsked && peer.nextQueryMs <= nowMs)
    .sort((a, b) => a.nextQueryMs - b.nextQueryMs);
}

function follow(pool: PeerPool): void {
  const { cluster, settings, byAddress, clock } = pool;
  const targets = targetsOf({
    self: cluster.self(),
    nodes: cluster.nodes(),
    isComplete: isComplete(cluster),
    fixed: settings.peers,
    stored: pool.stored,
  });
  for (const [address, peer] of byAddress) {
    if (targets.has(address)) continue;
    byAddress.delete(address);
    peer.connection.close();
    notifyAll(pool.listeners);
  }
  for (const [address, target] of targets) {
    const peer = byAddress.get(address);
    const soonMs = clock.monotonic() + Math.random() * SPREAD_MS;
    if (peer === undefined) byAddress.set(address, createPeer(target, pool, soonMs));
    else update(pool, peer, target, soonMs);
  }
}

function update(pool: PeerPool, peer: KnownPeer, target: Target, soonMs: number): void {
  const isNews = target.isAnnounced && (!peer.target.isAnnounced || peer.target.announced !== target.announced);
  peer.target = target;
  if (isNews) peer.quiet = 0;
  // An address of this node itself is not queried again.
  if (peer.node === pool.cluster.self()) peer.nextQueryMs = Number.POSITIVE_INFINITY;
  else peer.nextQueryMs = Math.min(peer.nextQueryMs, isNews ? soonMs : pool.clock.monotonic() + pauseNow(pool, peer));
}
