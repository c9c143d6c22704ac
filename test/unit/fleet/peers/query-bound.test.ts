import { afterEach, describe, expect, it } from 'vitest';
import type { NodeStatus } from '../../../../src/domain/fleet/node-status.ts';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import type { ClusterNode } from '../../../../src/fleet/trouble.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { fixedPeers } from '../../../support/fleet/fixed-peers.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';
import { SimulatedClock } from '../../../support/simulated-clock.ts';

const MINUTE_MS = 60_000;
const BUNDLE = digestOf('ocp 4.13.7');
const OFFERED = { bundleId: BUNDLE, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: '1' };
/** Of an older release. */
const KEPT = { ...OFFERED, bundleId: digestOf('ocp 4.13.6'), version: '4.13.6', sequence: 6 };
const PRELOADING: NodeStatus = {
  version: 1,
  releases: [{ name: 'ocp', version: '4.13.7', bundle: hexOf(BUNDLE).slice(0, 16), phase: 'preloading' }],
};

const stop: (() => Promise<void>)[] = [];
afterEach(() => Promise.all(stop.splice(0).map((end) => end())));

const nameAt = (at: number) => `worker-${String(at).padStart(4, '0')}`;
const endpointAt = (at: number) => ({ host: `10.0.${at >> 8}.${at % 256}`, port: 9777 });

interface Setting {
  readonly size: number;
  /** The only node that has the bundle. */
  readonly holder?: number | (() => number | undefined);
  /** Nodes that do not answer for 10 s, and then never. */
  readonly isAway?: (at: number) => boolean;
  /** Nodes that keep an older release, which this node does not have. */
  readonly keeps?: (at: number) => boolean;
  /** Nodes with news for each query. */
  readonly changes?: (at: number) => boolean;
  readonly absent?: number;
  /** Default: nobody knows other nodes but by `fleet.peers`. */
  readonly isAnnounced?: boolean;
}

/** One node that preloads, with `size - 1` others. */
function play(setting: Setting) {
  const { size, holder, isAway = () => false, absent = 60 * MINUTE_MS, isAnnounced = false } = setting;
  const clock = new SimulatedClock();
  const cluster = fixedCluster('self');
  const others = Array.from({ length: size - 1 }, (_none, at) => at + 1);
  const nodes = others.map(
    (at): ClusterNode => ({ name: nameAt(at), endpoint: endpointAt(at), serves: at === holder ? [BUNDLE] : [] }),
  );
  if (isAnnounced) cluster.set([...nodes, { name: 'self', serves: [] }]);
  const queries: { readonly at: number; readonly atMs: number }[] = [];
  /** A long poll that lasts brings news at once. */
  const heard: typeof queries = [];
  const peers = fixedPeers({
    clock,
    settings: {
      listen: 'auto',
      activate: 'each',
      absent,
      exclude: [],
      peers: isAnnounced ? [] : others.map((at) => `${endpointAt(at).host}:9777`),
    },
    cluster,
    ownStatus: () => PRELOADING,
    request: async ({ target: { endpoint } }, { waitMs = 0, etag: known }, signal) => {
      const [, , third = 0, fourth = 0] = endpoint.host.split('.').map(Number);
      const at = third * 256 + fourth;
      const began = { at, atMs: clock.monotonic() };
      queries.push(began);
      heard.push(began);
      await clock.sleep(isAway(at) ? 10_000 : 2 + waitMs, signal);
      if (isAway(at)) throw new Error('it does not answer');
      heard.push({ at, atMs: clock.monotonic() });
      const bundles = [
        ...(at === (typeof holder === 'function' ? holder() : holder) ? [OFFERED] : []),
        ...(setting.keeps?.(at) === true ? [KEPT] : []),
      ];
      const etag = `"${bundles.length}, ${setting.changes?.(at) === true ? queries.length : 0}"`;
      return etag === known ? undefined : { document: { version: 1, bundles, node: { name: nameAt(at) } }, etag };
    },
  });
  const ending = new AbortController();
  const running = peers.run(ending.signal);
  stop.push(() => {
    ending.abort();
    return running;
  });
  return {
    clock,
    peers,
    others,
    queries,
    heard,
    isFound: () => peers.list().some(({ bundles }) => bundles.length > 0),
    between: (fromMs: number, toMs: number) => queries.filter(({ atMs }) => atMs >= fromMs && atMs < toMs),
  };
}

const SIZE = 400;
/** All others, one after the other. */
const ROUND_MS = (SIZE / 8) * 1_000;

describe('a node that needs something', () => {
  it('queries 100 others every 30 s, as long as they have no news', async () => {
    const { clock, heard, others } = play({ size: 101 });
    await clock.passUntil(3 * MINUTE_MS);
    for (let endMs = 2 * MINUTE_MS; endMs < 3 * MINUTE_MS; endMs += 5_000) {
      const late = heard.filter(({ atMs }) => atMs >= endMs - 35_000 && atMs < endMs);
      expect(new Set(late.map(({ at }) => at)).size).toBe(others.length);
    }
  });

  it('begins at most 8 queries a second of many others, and forgets none', async () => {
    const { clock, between, others } = play({ size: SIZE });
    await clock.passUntil(3 * ROUND_MS);
    expect(between(0, 30_000).length).toBeLessThanOrEqual(240 + 8 * 30);
    for (let fromMs = 30_000; fromMs < 3 * ROUND_MS - 10_000; fromMs += 10_000) {
      expect(between(fromMs, fromMs + 10_000).length).toBeLessThanOrEqual(8 * 10 + 1);
    }
    const round = between(ROUND_MS, 2.5 * ROUND_MS);
    expect(new Set(round.map(({ at }) => at)).size).toBe(others.length);
  });

  it('queries more of them where a short fleet.absent needs it', async () => {
    const absent = 2 * MINUTE_MS;
    const { clock, between, others } = play({ size: SIZE, absent });
    await clock.passUntil(2 * MINUTE_MS);
    const half = between(MINUTE_MS, 2 * MINUTE_MS);
    expect(new Set(half.map(({ at }) => at)).size).toBe(others.length);
  });

  it('queries all others in a short fleet.absent, though many have news all the time', async () => {
    const absent = 2 * MINUTE_MS;
    const isLoud = (at: number) => at <= 200;
    const { clock, between, others } = play({ size: 260, absent, keeps: isLoud, changes: isLoud });
    await clock.passUntil(2 * absent);
    expect(new Set(between(absent, 2 * absent).map(({ at }) => at)).size).toBe(others.length);
  });

  it('queries the others as often where half of them are away for 10 s each', async () => {
    const isAway = (at: number) => at % 2 === 0;
    const { clock, heard, others } = play({ size: SIZE, absent: MINUTE_MS, isAway });
    await clock.passUntil(2 * MINUTE_MS);
    const late = heard.filter(({ at, atMs }) => !isAway(at) && atMs >= 2 * MINUTE_MS - 40_000);
    expect(new Set(late.map(({ at }) => at)).size).toBe(others.filter((at) => !isAway(at)).length);
  });

  it('queries each of them once before it returns again and again to those with an older release', async () => {
    const { clock, between, others } = play({ size: 320, keeps: () => true });
    await clock.passUntil(MINUTE_MS);
    expect(new Set(between(0, MINUTE_MS).map(({ at }) => at)).size).toBe(others.length);
  });
});

describe('the only node that has the bundle', () => {
  const holder = 365;

  it('is queried first when its Node says so', async () => {
    const { clock, queries, isFound } = play({ size: SIZE, holder, isAnnounced: true });
    await clock.passUntil(5_000, isFound);
    expect(isFound()).toBe(true);
    const due = queries.findIndex(({ at }) => at === holder);
    expect(queries.length - due).toBeLessThan(100);
  });

  it('is queried next when it calls, though all others are due', async () => {
    let has = false;
    const { clock, peers, isFound } = play({
      size: SIZE,
      holder: () => (has ? holder : undefined),
      // A call of a quiet node may wait for longer.
      changes: (at) => at === holder,
    });
    await clock.passUntil(ROUND_MS);
    has = true;
    peers.calledBy(endpointAt(holder).host);
    // It may have answered just before, or a long poll may run.
    await clock.passUntil(ROUND_MS + 35_000, isFound);
    expect(isFound()).toBe(true);
  });

  it('is found within two rounds without a word from it, while half of the others are away', async () => {
    const { clock, isFound } = play({ size: SIZE, holder, isAway: (at) => at % 2 === 0 });
    await clock.passUntil(2 * ROUND_MS, isFound);
    expect(isFound()).toBe(true);
  });
});
