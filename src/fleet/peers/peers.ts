import type { Peer } from '../../domain/fleet/node-status.ts';
import { formatEndpoint } from '../../domain/settings/value-types.ts';
import { withEither } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import { listen, notifyAll } from '../../platform/subscription.ts';
import { askPeer, type Crowd, fail, isNewsWanted, type PeersOptions, pauseNow } from './ask-peer.ts';
import {
  createPeer,
  isComplete,
  type KnownPeer,
  nameOf,
  type Peers,
  rememberNodes,
  type Target,
  type ToldStatus,
} from './peer.ts';
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
  const crowd: Crowd = {
    ...options,
    byAddress: new Map(),
    listeners: new Set(),
    inTurn: oneAtATime(),
    stored: [],
    wake: new AbortController(),
  };
  return {
    list: () => [...shown(crowd).values()].map(viewOf),
    find: (name) => shown(crowd).get(name),
    statuses: () => statusesOf(crowd),
    nodeNames: () => nodeNames(crowd),
    failed: (peer, error) => fail(crowd, peer, error),
    look: () => crowd.wake.abort(),
    onChange: (listener) => listen(crowd.listeners, listener),
    load: async (signal) => {
      crowd.stored = await crowd.store.load(signal);
    },
    run: (signal) => run(crowd, signal),
  };
}

/** One of each name: a node may answer at several addresses. */
function shown({ byAddress, cluster }: Crowd): ReadonlyMap<string, KnownPeer> {
  const byName = new Map<string, KnownPeer>();
  for (const peer of byAddress.values()) {
    const name = nameOf(peer);
    const other = byName.get(name);
    const isBetter = other === undefined || (other.trouble !== undefined && peer.trouble === undefined);
    if (isBetter && name !== cluster.self()) byName.set(name, peer);
  }
  return new Map([...byName].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function statusesOf(crowd: Crowd): ReadonlyMap<string, ToldStatus> {
  const told = [...shown(crowd)].filter(([, { status }]) => status !== undefined);
  return new Map(told.map(([name, { status, statusAtMs }]) => [name, { status, atMs: statusAtMs }]));
}

function nodeNames(crowd: Crowd): readonly string[] {
  const asked = [...shown(crowd).values()].flatMap(({ target, node }) => target.name ?? node ?? []);
  const stored = crowd.stored.map(({ name }) => name).filter((name) => name !== crowd.cluster.self());
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

async function run(crowd: Crowd, signal: AbortSignal): Promise<void> {
  const unsubscribe = crowd.cluster.onChange(() => crowd.wake.abort());
  const asking = new Set<Promise<void>>();
  try {
    while (!signal.aborted) {
      crowd.wake = new AbortController();
      follow(crowd);
      await rememberNodes(crowd, signal).catch(() => undefined);
      for (const peer of due(crowd).slice(0, Math.max(0, AT_ONCE - asking.size))) {
        const one = askPeer(crowd, peer, mayWait(crowd, peer), signal).finally(() => {
          asking.delete(one);
          crowd.wake.abort();
        });
        asking.add(one);
      }
      await pause(crowd, signal);
    }
  } finally {
    unsubscribe();
    await Promise.all(asking);
    for (const { connection } of crowd.byAddress.values()) connection.close();
  }
}

function mayWait(crowd: Crowd, peer: KnownPeer): boolean {
  const held = [...crowd.byAddress.values()].filter(({ isWaitedFor }) => isWaitedFor).length;
  const { hasAnswered, trouble } = peer;
  return hasAnswered && trouble === undefined && held < HELD_AT_ONCE && isNewsWanted(crowd, peer);
}

async function pause(crowd: Crowd, signal: AbortSignal): Promise<void> {
  const next = [...crowd.byAddress.values()].filter((one) => !one.isAsked).map((one) => one.nextAskMs);
  const ms = Math.min(LOOK_MS, Math.max(10, Math.min(...next) - crowd.clock.monotonic()));
  await withEither([signal, crowd.wake.signal], (either) => crowd.clock.sleep(ms, either)).catch(() => undefined);
}

function due({ byAddress, clock }: Crowd): KnownPeer[] {
  const nowMs = clock.monotonic();
  return [...byAddress.values()]
    .filter((peer) => !peer.isAsked && peer.nextAskMs <= nowMs)
    .sort((a, b) => a.nextAskMs - b.nextAskMs);
}

function follow(crowd: Crowd): void {
  const { cluster, settings, byAddress, clock } = crowd;
  const targets = targetsOf({
    self: cluster.self(),
    nodes: cluster.nodes(),
    isComplete: isComplete(cluster),
    fixed: settings.peers,
    stored: crowd.stored,
  });
  for (const [address, peer] of byAddress) {
    if (targets.has(address)) continue;
    byAddress.delete(address);
    peer.connection.close();
    notifyAll(crowd.listeners);
  }
  for (const [address, target] of targets) {
    const peer = byAddress.get(address);
    const soonMs = clock.monotonic() + Math.random() * SPREAD_MS;
    if (peer === undefined) byAddress.set(address, createPeer(target, crowd, soonMs));
    else update(crowd, peer, target, soonMs);
  }
}

function update(crowd: Crowd, peer: KnownPeer, target: Target, soonMs: number): void {
  const isNews = target.isAnnounced && (!peer.target.isAnnounced || peer.target.announced !== target.announced);
  peer.target = target;
  if (isNews) peer.quiet = 0;
  // An address of this node itself is not queried again.
  if (peer.node === crowd.cluster.self()) peer.nextAskMs = Number.POSITIVE_INFINITY;
  else peer.nextAskMs = Math.min(peer.nextAskMs, isNews ? soonMs : crowd.clock.monotonic() + pauseNow(crowd, peer));
}
