import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, expect, it } from 'vitest';
import { MOST_GIVERS } from '../../../../src/domain/fleet/givers.ts';
import type { OfferedBundle, Peer } from '../../../../src/domain/fleet/node-status.ts';
import type { BundleReport } from '../../../../src/domain/report/status-schema.ts';
import { BoundedOffers } from '../../../../src/fleet/daemon/bounded-offers.ts';
import type { PeerClient } from '../../../../src/fleet/daemon/peer-bundle.ts';
import { PeerMedia } from '../../../../src/fleet/daemon/peer-media.ts';
import { type Busy, busyError, offersError } from '../../../../src/fleet/wire/documents.ts';
import { PEER_BUDGET, PeerBudgets } from '../../../../src/fleet/wire/peer-budgets.ts';
import type { MediaSink, PluggedMedium } from '../../../../src/media/media-provider.ts';
import { deferred, untilAborted } from '../../../../src/platform/async/abort.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { Observable } from '../../../../src/platform/subscription.ts';

const BLOB = Buffer.alloc(1024 * 1024, 'a layer ');
const DIGEST = digestOf(BLOB);
const never = new AbortController().signal;
const offered: OfferedBundle = {
  bundleId: digestOf('ocp 4.13.7'),
  name: 'ocp',
  version: '4.13.7',
  sequence: 7,
  isWhole: true,
  revision: 'r1',
};
const client: Pick<PeerClient, 'blobs' | 'read'> = {
  blobs: async () => new Map([[DIGEST, BLOB.length]]),
  read: async function* () {
    if (busy !== undefined) throw busyError('it', busy);
    if (fails) throw offersError('offers/unreachable', 'it does not answer');
    yield BLOB;
  },
};

class Fleet extends Observable {
  peers: readonly Peer[] = [];

  view() {
    return { self: 'worker-0', nodes: [], peers: this.peers };
  }

  isSilent(): boolean {
    return false;
  }

  show(count: number, bundles: readonly OfferedBundle[] = [offered]): void {
    this.peers = Array.from({ length: count }, (_none, at) => ({
      name: `worker-${at + 1}`,
      address: `10.0.0.${at + 1}:9777`,
      bundles,
    }));
    this.notify();
  }
}

let nowMs: number;
let fails: boolean;
let busy: Busy | undefined;
let sleeps: { readonly ms: number; readonly end: () => void }[];
let fleet: Fleet;
let bounds: BoundedOffers;
let media: PeerMedia;
let plugged: Map<string, PluggedMedium>;

beforeEach(async () => {
  nowMs = 0;
  fails = false;
  busy = undefined;
  fleet = new Fleet();
  plugged = new Map();
  sleeps = [];
  const sleep = (ms: number, signal: AbortSignal) => {
    const { promise, resolve } = deferred<void>();
    sleeps.push({ ms, end: resolve });
    return untilAborted(promise, signal);
  };
  const clock = { ...systemClock, monotonic: () => nowMs, sleep };
  bounds = new BoundedOffers(new PeerBudgets(clock));
  media = new PeerMedia({
    fleet,
    clientOf: () => client as PeerClient,
    isWanted: () => true,
    ownBlobs: { sizeOf: async () => undefined, read: () => client.read(DIGEST, 0, never) },
    clock,
    random: () => 0.5,
    bounds,
  });
  const sink: MediaSink = {
    arrived: (medium) => void plugged.set(medium.label, medium),
    changed: () => undefined,
    left: (mediumId) => void plugged.delete(mediumId.slice('peer:'.length)),
  };
  await media.start(sink);
});

async function take(name: string): Promise<void> {
  const opened = await plugged.get(name)?.open(never);
  const [bundle] = (await opened?.findBundles(never)) ?? [];
  if (bundle?.kind !== 'bundle') return expect.unreachable();
  for await (const _chunk of bundle.blobs.read(DIGEST, 0, never));
}

it('makes 8 of many nodes media, and all of a few', () => {
  fleet.show(MOST_GIVERS);
  expect(plugged.size).toBe(MOST_GIVERS);
  fleet.show(5_000);
  expect(plugged.size).toBe(MOST_GIVERS);
});

it('replaces those that give wrong bytes by others, until each one had its turn', () => {
  fleet.show(20);
  const used = new Set<string>();
  for (let round = 0; round < 3; round += 1) {
    for (const [name, medium] of [...plugged]) {
      used.add(name);
      medium.distrusted?.();
    }
    expect(plugged.size).toBe(MOST_GIVERS);
  }
  expect(used.size).toBe(20);
});

it('replaces one that does not answer', async () => {
  fleet.show(20);
  const before = [...plugged.keys()];
  const [first = ''] = before;
  fails = true;
  await take(first).catch(() => undefined);
  expect(before.filter((name) => !plugged.has(name))).toEqual([first]);
});

it('takes one that failed and comes again after others, until it gives something', async () => {
  fleet.show(MOST_GIVERS + 1);
  const [first = ''] = plugged.keys();
  fails = true;
  await take(first).catch(() => undefined);
  expect(plugged.has(first)).toBe(false);
  for (const medium of [...plugged.values()]) medium.distrusted?.();
  expect(plugged.get(first)?.peer?.()).toEqual({ isReady: true, hasFailed: true });
  fails = false;
  await take(first);
  expect(plugged.get(first)?.peer?.()).toEqual({ isReady: true });
});

/** Lets each minute end, with what `inEach` takes in it. @returns who was used */
async function pass(minutes: number, inEach = async () => undefined as unknown): Promise<Set<string>> {
  const used = new Set(plugged.keys());
  for (let minute = 0; minute < minutes; minute += 1) {
    await inEach();
    nowMs += 60_000;
    sleeps.findLast(({ ms }) => ms === 60_000)?.end();
    await turn();
    for (const name of plugged.keys()) used.add(name);
  }
  return used;
}

const known = {
  ...offered,
  phase: 'preloading',
  images: { total: 3, present: 1, pinned: 1 },
} as unknown as BundleReport;

it('replaces those that give too little of what is sought, though they never fail, and keeps the one that gives', async () => {
  fleet.show(30);
  media.reported({ rejected: [], bundles: [{ ...known, hold: 'media' }] });
  const [giving = ''] = plugged.keys();
  expect((await pass(4, () => take(giving))).size).toBe(30);
  expect(plugged.has(giving)).toBe(true);
});

it('keeps one that has a queue for 10 minutes', async () => {
  busy = { queue: { place: 2, waiting: 3 }, retryMs: 3_600_000 };
  fleet.show(200);
  const [first = ''] = plugged.keys();
  await take(first).catch(() => undefined);
  await pass(9);
  expect(plugged.has(first)).toBe(true);
  await pass(1);
  expect(plugged.has(first)).toBe(false);
});

it.each(['approval', 'space', 'runtime'])('keeps all while the bundle waits for something else: %s', async (hold) => {
  fleet.show(30);
  media.reported({ rejected: [], bundles: [{ ...known, hold }] });
  expect((await pass(5)).size).toBe(MOST_GIVERS);
});

it('keeps all of a few, though they give nothing', async () => {
  fleet.show(MOST_GIVERS);
  const before = [...plugged.values()];
  await pass(5);
  expect([...plugged.values()]).toEqual(before);
});

it('leaves out one that is too slow, and takes from another one', () => {
  fleet.show(MOST_GIVERS);
  const [first] = plugged.values();
  first?.tooSlow?.();
  expect(first?.peer?.()).toEqual({ isReady: false, hasFailed: true });
  fleet.show(20);
  const next = [...plugged.values()].at(-1);
  next?.tooSlow?.();
  expect(plugged.has(next?.label ?? '')).toBe(false);
});

it('keeps all of a few, whatever they give', () => {
  fleet.show(MOST_GIVERS);
  const before = [...plugged.values()];
  for (const medium of before) medium.distrusted?.();
  expect([...plugged.values()]).toEqual(before);
});

it('charges no node for the turns that this one gives it, but those that come and go', () => {
  fleet.show(MOST_GIVERS + 1);
  for (let time = 0; time < 100; time += 1) for (const medium of [...plugged.values()]) medium.distrusted?.();
  const excluded = () => fleet.peers.filter(({ name }) => bounds.exclusion(name) !== undefined).length;
  expect(excluded()).toBe(0);
  nowMs += 60_000;
  for (let time = 0; time <= PEER_BUDGET.arrival.perMinute; time += 1) {
    fleet.show(MOST_GIVERS + 1, []);
    expect(plugged.size).toBe(0);
    fleet.show(MOST_GIVERS + 1);
  }
  expect(excluded()).toBe(MOST_GIVERS + 1);
  fleet.notify();
  expect(plugged.size).toBe(MOST_GIVERS);
});

it('takes from a node that was left out when that is over, though a timer fires 1 ms early', async () => {
  for (let time = 0; time <= PEER_BUDGET.arrival.perMinute; time += 1) {
    fleet.show(1, []);
    fleet.show(1);
  }
  const kind = async () => {
    const [medium] = plugged.values();
    const [found] = (await (await medium?.open(never))?.findBundles(never)) ?? [];
    return found?.kind;
  };
  expect(await kind()).toBe('unreadable');
  for (const earlyMs of [1, 0]) {
    const next = sleeps.at(-1);
    nowMs += (next?.ms ?? 0) - earlyMs;
    next?.end();
    await turn();
    expect(await kind()).toBe(earlyMs === 0 ? 'bundle' : 'unreadable');
  }
});
