import { afterEach, describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../src/domain/model/bundle.ts';
import { hexOf } from '../../../src/domain/model/digest.ts';
import type { StagingPlace } from '../../../src/domain/model/image.ts';
import type { Policy } from '../../../src/domain/settings/settings.ts';
import { POLICY, referenceOf, verified } from '../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../support/fake-ports.ts';

const MINUTE = 60_000;

/** `ocp 4.13.N` of sequence N: etcd and api of its own, and `base`, which all have. */
const release = (sequence: number, over: Parameters<typeof verified>[0] = {}): VerifiedBundle =>
  verified({
    sequence,
    version: `4.13.${sequence}`,
    images: { [`etcd-${sequence}`]: ['os', `e${sequence}`], [`api-${sequence}`]: ['os', `a${sequence}`], base: ['os'] },
    imageOver: { [`etcd-${sequence}`]: { component: 'etcd' }, [`api-${sequence}`]: { component: 'api' } },
    ...over,
  });
const [A, B, C, D] = [release(1), release(2), release(3), release(4)];

let node: FakeNode;
afterEach(async () => {
  await node.stop();
});

async function start(lifecycle: Partial<Policy['lifecycle']> = {}, prepare: () => void = () => undefined) {
  node = createFakeNode([], { lifecycle: { ...POLICY.lifecycle, ...lifecycle } });
  prepare();
  await node.start();
}
const phases = () => Object.fromEntries(node.engine.report()?.bundles.map((one) => [one.version, one.phase]) ?? []);
const kinds = () => node.store.rows.map(({ kind }) => kind);
const has = (name: string) => node.runtime.images.has(referenceOf(name));
const pin = (name: string) => node.runtime.pins().includes(referenceOf(name));

/** A stick is plugged in and pulled out again once the release is ready. */
async function preload(bundle: VerifiedBundle) {
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  node.media.unplug('sdb1');
  await node.clock.advance(0);
}
/** The control plane starts the containers of a release in place of those before. */
async function run(sequence: number, ...components: readonly string[]) {
  for (const component of components)
    node.runtime.startContainer(`pod/${component}`, referenceOf(`${component}-${sequence}`));
  await node.clock.advance(30_000);
}
/**
 * Another daemon on what the one before has stored; the same containers are listed, as no reboot
 * would leave them.
 */
async function restart({ bootId, downMs }: { bootId: string; downMs: number }) {
  await node.stop();
  const before = node;
  const uptimeMs = before.boot().uptimeMs + downMs;
  node = createFakeNode([], {}, before.store);
  for (const [name, imageId] of before.runtime.images) node.runtime.images.set(name, imageId);
  for (const [id, container] of before.runtime.running) node.runtime.running.set(id, container);
  const { clock } = node;
  node.boot = () => ({ bootId, uptimeMs: uptimeMs + clock.monotonic() });
  await node.start();
}
async function prove(bundle: VerifiedBundle) {
  await preload(bundle);
  await run(bundle.payload.sequence, 'etcd', 'api');
  await node.clock.advance(10 * MINUTE);
}

describe('from ready to proven', () => {
  it('shows when a release will be proven, checks at that time, and records it in the history', async () => {
    await start();
    await preload(A);
    await run(1, 'etcd', 'api');
    expect(node.statuses.at(-1)).toMatch(
      /^IDLE: ocp 4\.13\.1 active \(3 images pinned\), proven in about 10 min\. Waiting/,
    );
    await node.clock.advance(9 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active' });
    await node.clock.advance(MINUTE);
    expect(node.statuses.at(-1)).toBe('IDLE: ocp 4.13.1 proven (3 images pinned). Waiting for a stick.');
    await prove(B);
    expect(kinds()).not.toContain('bundleRetired');
    await prove(C);
    expect(kinds().slice(-3)).toEqual(['bundleProven', 'bundleRetired', 'imagesRemoved']);
  });

  it('lists containers while a release proves itself, and never after', async () => {
    await start();
    expect(node.runtime.looks()).toBe(0);
    await prove(A);
    const looks = node.runtime.looks();
    expect(looks).toBeGreaterThan(10);
    await node.clock.advance(60 * MINUTE);
    expect(node.runtime.looks()).toBe(looks);
  });

  it('a restart starts the clock of its component again, not of the others', async () => {
    await start();
    await preload(A);
    await run(1, 'etcd', 'api');
    await node.clock.advance(8 * MINUTE);
    await run(1, 'api');
    const soak = node.store.load().bundles[0]?.soak?.components ?? [];
    const since = (name: string) => soak.find(({ component }) => component === name)?.runs[0]?.sinceMs ?? Number.NaN;
    expect(since('api') - since('etcd')).toBeGreaterThan(8 * MINUTE);
  });

  it('names what delays the proof: a failed component, or a required one that does not run', async () => {
    await start({ require: ['base'] });
    await preload(A);
    await run(1, 'etcd', 'api');
    expect(node.statuses.at(-1)).toContain('waits for base to run.');
    node.runtime.startContainer('pod/base', referenceOf('base'));
    node.runtime.endContainer('pod/api', 1);
    await node.clock.advance(60 * MINUTE);
    expect(node.statuses.at(-1)).toContain('but api failed.');
  });
});

describe('what others wait for', () => {
  const at = (index: number) => node.engine.report()?.bundles[index];
  const soakOf = (index: number) => node.store.load().bundles[index]?.soak;

  it('is false until containers run from a release, where those of the one before did', async () => {
    await start();
    await preload(A);
    expect(at(0)).toMatchObject({ phase: 'activated', current: true });
    expect(at(0)).not.toHaveProperty('runs');
    await run(1, 'etcd', 'api');
    await node.clock.advance(10 * MINUTE);
    expect(at(0)).toMatchObject({ phase: 'proven', runs: true });
    for (const name of ['etcd', 'api']) node.runtime.endContainer(`pod/${name}`, 0);
    await preload(B);
    await node.clock.advance(MINUTE);
    expect(at(1)).toMatchObject({ phase: 'activated', current: true, runs: false });
    node.runtime.isUp = false;
    await node.clock.advance(MINUTE);
    expect(at(1)).toMatchObject({ phase: 'activated', runs: false });
  });

  /** A node of a cluster, or a node alone, on which both releases were proven. */
  async function proveBoth(isInFleet: boolean) {
    node = createFakeNode([], { fleet: { ...POLICY.fleet, enabled: isInFleet } });
    const facts = { labels: {}, isReady: true, isCordoned: false };
    if (isInFleet) {
      node.fleet = { self: 'b', nodes: [{ name: 'b', isAbsent: false, facts }], peers: [], readLabels: [] };
    }
    await node.start();
    await prove(A);
    await prove(B);
    expect(phases()).toEqual({ '4.13.1': 'superseded', '4.13.2': 'proven' });
  }

  it('is not recorded after the proof on a node alone', async () => {
    await proveBoth(false);
    const proof = soakOf(1);
    await run(2, 'api');
    node.runtime.endContainer('pod/etcd', 1);
    await node.clock.advance(10 * MINUTE);
    expect(soakOf(1)).toEqual(proof);
    expect(at(1)).toMatchObject({ phase: 'proven', runs: true });
  });

  it('is recorded after the proof only where it changes: jobs come and go without a record', async () => {
    await proveBoth(true);
    const proof = soakOf(1);
    node.runtime.startContainer('pod/job-1', referenceOf('api-2'));
    await node.clock.advance(10 * MINUTE);
    node.runtime.endContainer('pod/job-1', 0);
    await node.clock.advance(10 * MINUTE);
    expect(soakOf(1)).toEqual(proof);
    node.runtime.startContainer('pod/job-2', referenceOf('api-2'));
    node.runtime.endContainer('pod/job-2', 1);
    await node.clock.advance(10 * MINUTE);
    expect(soakOf(1)).toHaveProperty('afterProof');
  });

  it('changes after the proof, too: with a restart, and while nothing runs', async () => {
    await proveBoth(true);
    const proof = soakOf(1);
    await node.clock.advance(30 * MINUTE);
    expect(soakOf(1)).toEqual(proof);
    await run(2, 'api');
    await node.clock.advance(10 * MINUTE);
    expect(soakOf(1)).toMatchObject({ ...proof, afterProof: { components: [{}, {}] } });
    const disturbedMs = soakOf(1)?.afterProof?.components.flatMap((one) => one.disturbedMs ?? []);
    expect(disturbedMs).toHaveLength(1);
    const seen = soakOf(1);
    await node.clock.advance(30 * MINUTE);
    expect(soakOf(1)).toEqual(seen);
    for (const name of ['etcd', 'api']) node.runtime.endContainer(`pod/${name}`, 1);
    await node.clock.advance(10 * MINUTE);
    expect(at(1)).toMatchObject({ phase: 'proven', runs: false });
    // Without a cluster.
    await restart({ bootId: node.boot().bootId, downMs: 0 });
    await node.clock.advance(10 * MINUTE);
    expect(soakOf(1)).toEqual(proof);
  });
});

describe('how long another node has run a release', () => {
  it('is kept over a restart while this node waits, which then waits for the rest', async () => {
    const policy = { fleet: { ...POLICY.fleet, enabled: true } };
    const facts = { labels: {}, isReady: true, isCordoned: false };
    const bundle = hexOf(B.bundleId).slice(0, 16);
    const release = { name: 'ocp', version: '4.13.2', bundle, phase: 'active', current: true, runs: true } as const;
    const other = { name: 'a', isAbsent: false, facts, status: { version: 1, releases: [release] } } as const;
    const fleet = { self: 'b', nodes: [other, { name: 'b', isAbsent: false, facts }], peers: [], readLabels: [] };
    const wellMs = () => [...(node.store.load().sightings ?? new Map()).values()][0]?.wellMs ?? 0;
    node = createFakeNode([], policy);
    node.fleet = fleet;
    await node.start();
    await preload(B);
    await node.clock.advance(MINUTE + 30_000);
    const before = wellMs();
    expect(before).toBeGreaterThanOrEqual(MINUTE);
    await node.stop();
    const { images } = node.runtime;
    node = createFakeNode([], policy, node.store);
    for (const [name, imageId] of images) node.runtime.images.set(name, imageId);
    node.fleet = fleet;
    await node.start();
    expect(wellMs()).toBe(before);
    expect(phases()).toEqual({ '4.13.2': 'ready' });
    // Of 2 min, 1 min was over.
    await node.clock.advance(MINUTE + 30_000);
    expect(phases()).toEqual({ '4.13.2': 'activated' });
  });
});

describe('a release of the same images as the one that runs', () => {
  it('takes its place when it is ready, and counts as proven', async () => {
    await start();
    await prove(A);
    await preload(release(1, { sequence: 2, version: '4.13.2' }));
    await node.clock.advance(MINUTE);
    expect(kinds().filter((kind) => kind === 'bundleTakesOver')).toHaveLength(1);
    expect(phases()).toEqual({ '4.13.1': 'retired', '4.13.2': 'proven' });
  });
});

describe('a release that runs without an activation', () => {
  const waiting = release(2, { schedule: 'manual' });
  const ready = async () => {
    await prove(A);
    await preload(waiting);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'ready' });
  };

  it('is activated when it is ready, gets its tags, and is then proven', async () => {
    await start();
    await ready();
    node.runtime.images.delete('quay.example.com/ocp/etcd-2:4.13.2');
    await run(2, 'etcd');
    await node.clock.advance(25_000);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'ready' });
    await node.clock.advance(40_000);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'active' });
    expect(node.runtime.images.get('quay.example.com/ocp/etcd-2:4.13.2')).toBe(referenceOf('etcd-2'));
    expect(node.store.rows.filter(({ kind }) => kind === 'bundleSeenRunning').map(({ message }) => message)).toEqual([
      'ocp 4.13.2 runs, though it was not activated here: etcd has containers of its images. It is activated, so that its tags name what runs',
    ]);
    expect(kinds().slice(-3)).toEqual(['bundleSeenRunning', 'bundleActivated', 'bundleActive']);
    await run(2, 'api');
    await node.clock.advance(10 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'superseded', '4.13.2': 'proven' });
  });

  it('is activated when it is the first release of a node', async () => {
    await start();
    await preload(release(1, { schedule: 'manual' }));
    await run(1, 'api');
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active' });
  });

  it('is not activated by containers of an image that two releases have, or that was on the node before', async () => {
    await start({}, () => {
      node.runtime.images.set(referenceOf('api-2'), referenceOf('api-2'));
    });
    await ready();
    node.runtime.startContainer('pod/base', referenceOf('base'));
    await run(2, 'api');
    await node.clock.advance(60 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'ready' });
  });

  it('is not activated by an image that two waiting releases have', async () => {
    await start();
    await preload(release(1, { schedule: 'manual' }));
    await preload(waiting);
    node.runtime.startContainer('pod/base', referenceOf('base'));
    await node.clock.advance(60 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'ready', '4.13.2': 'ready' });
    await run(2, 'etcd');
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'ready', '4.13.2': 'active' });
  });

  it('is not activated by an extra container, a job, or a container that restarts again and again', async () => {
    await start();
    await ready();
    node.runtime.startContainer('pod/test', referenceOf('etcd-2'));
    node.runtime.endContainer('pod/api', 0);
    node.runtime.startContainer('pod/job', referenceOf('api-2'));
    node.runtime.endContainer('pod/job', 0);
    await node.clock.advance(10 * MINUTE);
    for (let times = 0; times < 10; times += 1) {
      node.runtime.startContainer('pod/crash', referenceOf('api-2'));
      await node.clock.advance(45_000);
    }
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'ready' });
    node.runtime.endContainer('pod/etcd', 0);
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'active' });
  });

  it('is not activated again after it was rolled back', async () => {
    await start();
    await ready();
    await run(2, 'etcd', 'api');
    await node.clock.advance(2 * MINUTE);
    await run(1, 'etcd', 'api');
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active', '4.13.2': 'activated' });
    await run(2, 'etcd', 'api');
    await node.clock.advance(60 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated', '4.13.2': 'activated' });
    expect(kinds().filter((kind) => kind === 'bundleSeenRunning')).toHaveLength(1);
  });

  it('is activated after a minute that also counts while the daemon is down; the request of a person counts first', async () => {
    await start();
    await ready();
    await run(2, 'etcd');
    await restart({ bootId: 'boot-1', downMs: MINUTE });
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'active' });
    await preload(release(3, { schedule: 'manual' }));
    node.engine.commands.activate({ bundle: 'ocp@4.13.3' });
    await run(3, 'etcd');
    expect(kinds().slice(-3)).toEqual(['activation-requested', 'bundleActivated', 'bundleActive']);
  });
});

describe('retirement', () => {
  it('never removes an image that was there before, has a foreign name, or is used; removes exited containers first', async () => {
    await start({}, () => {
      node.runtime.images.set(referenceOf('etcd-1'), referenceOf('etcd-1'));
    });
    await prove(A);
    await prove(B);
    node.runtime.startContainer('pod/debug', referenceOf('api-1'));
    await prove(C);
    expect(phases()).toMatchObject({ '4.13.1': 'superseded' });
    node.runtime.endContainer('pod/debug', 0);
    await node.clock.advance(MINUTE);
    expect(phases()).toMatchObject({ '4.13.1': 'retired' });
    expect([has('etcd-1'), has('api-1')]).toEqual([true, false]);
    const log = node.runtime.log.filter((line) => line.startsWith('remove'));
    expect(log).toEqual([
      expect.stringMatching(/^remove container /),
      `remove image ${referenceOf('api-1')}`,
      'remove quay.example.com/ocp/base:4.13.1',
    ]);
    node.runtime.images.set('registry.example.com/mine:1', referenceOf('api-2'));
    await prove(D);
    expect(phases()).toMatchObject({ '4.13.2': 'retired' });
    expect([has('etcd-2'), has('api-2')]).toEqual([false, true]);
  });

  it('removes tags that only it gave to images that stay, unless a pod asks for them, never the last one', async () => {
    await start({ keep: 1 });
    const tag = (sequence: number) => `quay.example.com/ocp/base:4.13.${sequence}`;
    await prove(A);
    node.runtime.askedFor = [{ usedBy: 'Pod a', image: tag(1) }];
    await prove(B);
    await prove(C);
    expect([tag(1), tag(2), tag(3)].map((name) => node.runtime.images.has(name))).toEqual([true, false, true]);
    expect(has('base')).toBe(true);
    expect(node.store.rows.map(({ message }) => message)).toContain(
      'Removed 2 images and 1 tag that only ocp 4.13.2 had',
    );
    node.runtime.askedFor = [];
    await node.clock.advance(2 * MINUTE);
    expect([tag(1), tag(3)].map((name) => node.runtime.images.has(name))).toEqual([false, true]);
  });

  it('keeps a tag that a pod asks for since the containers were observed last', async () => {
    await start({ keep: 1 });
    const tag = 'quay.example.com/ocp/base:4.13.1';
    let observedAt = Number.NEGATIVE_INFINITY;
    Object.defineProperty(node.runtime, 'askedFor', {
      get: () => {
        const isAnew = node.clock.monotonic() - observedAt < MINUTE;
        if (!isAnew) observedAt = node.clock.monotonic();
        return isAnew ? [{ usedBy: 'Pod a', image: tag }] : [];
      },
    });
    await prove(A);
    await prove(B);
    await prove(C);
    expect(phases()).toMatchObject({ '4.13.1': 'retired' });
    expect(node.runtime.images.has(tag)).toBe(true);
  });

  describe('retires early when the next release needs space', () => {
    const GIB = 1024 ** 3;
    const sized = (sequence: number) =>
      release(sequence, { layers: { [`e${sequence}`]: { diskBytes: 400 * GIB, sizeBytes: 100 * GIB } } });
    /**
     * Two proven releases of 400 GiB and a stick with the third, on 1100 GiB; `staging` is where
     * the runtime stages blobs.
     */
    const tryThird = async (staging: StagingPlace | undefined) => {
      await start();
      const observe = node.runtime.observe;
      node.runtime.observe = async (signal) => {
        const seen = await observe(signal);
        if (seen.kind === 'unreachable') return seen;
        const used = [1, 2, 3].filter((sequence) => has(`etcd-${sequence}`)).length * 400 * GIB;
        const filesystem = { path: '/var', totalBytes: 1_200 * GIB, freeBytes: 1_100 * GIB - used };
        return { ...seen, filesystem, staging };
      };
      await prove(sized(1));
      await prove(sized(2));
      node.plug('sdc1', sized(3));
      await node.clock.advance(MINUTE);
    };
    const roomyElsewhere = { path: '/var/tmp', totalBytes: 1_200 * GIB, freeBytes: 1_100 * GIB };

    it.each<{ where: string; staging: StagingPlace | undefined }>([
      { where: 'nowhere', staging: undefined },
      { where: 'beside the images', staging: 'with-images' },
      { where: 'on another filesystem with room for it', staging: roomyElsewhere },
    ])('retires the fallback, and never the current release, when blobs are staged $where', async ({ staging }) => {
      await tryThird(staging);
      expect(phases()).toEqual({ '4.13.1': 'retired', '4.13.2': 'proven', '4.13.3': 'activated' });
      expect(node.store.rows.find(({ kind }) => kind === 'roomMade')?.message).toBe(
        'ocp 4.13.1 is retired early, to make room for ocp 4.13.3: it is no longer pinned; images that only it has are removed',
      );
      expect([has('etcd-1'), has('etcd-2'), has('etcd-3')]).toEqual([false, true, true]);
    });

    it('retires nothing when that does not help: space is missing on another filesystem, for staging', async () => {
      let freeBytes = 200 * GIB;
      const staging = {
        path: '/var/tmp',
        totalBytes: 1_200 * GIB,
        get freeBytes() {
          return has('etcd-2') ? freeBytes : 1_100 * GIB;
        },
      };
      await tryThird(staging);
      expect(phases()).toEqual({ '4.13.1': 'superseded', '4.13.2': 'proven', '4.13.3': 'held' });
      expect(kinds()).not.toContain('roomMade');
      freeBytes = 1_100 * GIB;
      await node.clock.advance(MINUTE);
      expect(phases()).toEqual({ '4.13.1': 'retired', '4.13.2': 'proven', '4.13.3': 'activated' });
    });
  });
});

describe('rollback', () => {
  const RUNS = (version: string) =>
    `containers run from images that only ocp@${version} has; it is unpinned by force only`;
  const RAN = (version: string) => RUNS(version).replace('run from', 'ran from');
  const unpin = (name: string, { removeImages = false, force = false } = {}) =>
    node.engine.commands.unpin({ bundle: name, removeImages, force }, new AbortController().signal);
  const unpinned = () => node.store.rows.filter(({ kind }) => kind === 'bundleRetired').map(({ message }) => message);

  it('marks a release that was active before, does not prove it, and does not activate it again automatically', async () => {
    await start();
    await prove(A);
    await preload(B);
    await run(2, 'etcd', 'api');
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'active' });
    await run(1, 'etcd', 'api');
    await node.clock.advance(2 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'active', '4.13.2': 'activated' });
    expect(kinds().filter((kind) => kind === 'bundleRolledBack')).toHaveLength(1);
    expect(node.statuses.at(-1)).toMatch(/: ocp 4\.13\.2 was rolled back: ocp 4\.13\.1 runs again\./);
    await run(2, 'etcd', 'api');
    await node.clock.advance(60 * MINUTE);
    node.plug('sdb1', B);
    await node.clock.advance(MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'activated', '4.13.2': 'activated' });
    expect(node.engine.report()?.bundles[1]?.reason?.code).toBe('engine/rolled-back');
    expect(kinds().filter((kind) => kind === 'bundleRolledBack')).toHaveLength(1);
    expect(kinds().filter((kind) => kind === 'bundleActivated')).toHaveLength(3);
    node.engine.commands.activate({ bundle: 'ocp@4.13.2' });
    await node.clock.advance(12 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'superseded', '4.13.2': 'proven' });
  });

  it('gives the running release its tags again without a stick, starts its proof again, and records both', async () => {
    const tag = 'quay.example.com/ocp/etcd-1:4.13.1';
    await start();
    await prove(A);
    await preload(B);
    await run(2, 'etcd');
    node.runtime.images.set(tag, referenceOf('etcd-2'));
    await node.clock.advance(MINUTE);
    expect(node.runtime.images.get(tag)).toBe(referenceOf('etcd-2'));
    await run(1, 'etcd');
    await node.clock.advance(2 * MINUTE);
    expect(node.runtime.images.get(tag)).toBe(referenceOf('etcd-1'));
    const since = kinds().indexOf('bundleRolledBack');
    expect(kinds().slice(since)).toEqual([
      'bundleRolledBack',
      'activation-requested',
      'bundleActivated',
      'bundleActive',
    ]);
    expect(node.store.rows[since + 1]?.message).toBe(
      'Activation of ocp 4.13.1 was requested automatically, because it runs again',
    );
    await node.clock.advance(10 * MINUTE);
    expect(phases()).toEqual({ '4.13.1': 'proven', '4.13.2': 'activated' });
    expect([pin('etcd-1'), pin('etcd-2')]).toEqual([true, true]);
  });

  it('stickpin rollback is in the history, and is refused for a stream without a fallback', async () => {
    await start();
    await prove(A);
    await prove(B);
    expect(node.engine.commands.rollback({ stream: '' })).toBe('ocp@4.13.1');
    await node.clock.advance(0);
    expect(kinds()).toEqual(expect.arrayContaining(['activation-requested', 'bundleRolledBack']));
    expect(() => node.engine.commands.rollback({ stream: 'tools' })).toThrow(
      expect.objectContaining({ code: 'engine/no-fallback' }),
    );
  });

  it('unpin refuses the base of a delta that is not ready, without --force', async () => {
    await start();
    await prove(A);
    await prove(B);
    node.plug('sdc1', release(3, { update: { base: A.bundleId } }));
    node.runtime.onPull = () => Promise.reject(new Error('not yet'));
    await node.clock.advance(0);
    await expect(unpin('ocp@4.13.1')).rejects.toThrow(/4\.13\.1 is the base of a bundle that is not ready yet/);
    await unpin('ocp@4.13.1', { force: true });
    await node.clock.advance(MINUTE);
    expect(phases()).toMatchObject({ '4.13.1': 'retired' });
  });

  it('unpin refuses a rolled back release that runs again, without --force', async () => {
    await start();
    await prove(A);
    await preload(B);
    await run(2, 'etcd');
    await run(1, 'etcd');
    await node.clock.advance(2 * MINUTE);
    await run(2, 'etcd');
    await expect(unpin('ocp@4.13.2')).rejects.toThrow(RUNS('4.13.2'));
    await run(1, 'etcd');
    await unpin('ocp@4.13.2');
    await node.clock.advance(MINUTE);
    expect(phases()).toMatchObject({ '4.13.2': 'retired' });
  });

  it('unpin lists the containers again, and so knows a container that has just started or ended', async () => {
    await start();
    await prove(A);
    await prove(B);
    const looks = node.runtime.looks();
    node.runtime.startContainer('pod/debug', referenceOf('etcd-1'));
    await expect(unpin('ocp@4.13.1')).rejects.toThrow(RUNS('4.13.1'));
    expect(node.runtime.looks()).toBe(looks + 1);
    expect(phases()).toMatchObject({ '4.13.1': 'superseded' });
    expect(pin('etcd-1')).toBe(true);
    node.runtime.endContainer('pod/debug', 0);
    await unpin('ocp@4.13.1');
    await node.clock.advance(MINUTE);
    expect(phases()).toMatchObject({ '4.13.1': 'retired' });
    expect(unpinned()).toEqual(['ocp 4.13.1 was unpinned by hand']);
  });

  it('unpin uses the last observation when the runtime does not answer, and says so; with --force it does not list containers', async () => {
    await start();
    await prove(A);
    await prove(B);
    node.runtime.startContainer('pod/debug', referenceOf('etcd-1'));
    await node.clock.advance(10 * MINUTE);
    node.runtime.isUp = false;
    await node.clock.advance(MINUTE);
    await expect(unpin('ocp@4.13.1')).rejects.toThrow(`when the container runtime answered last, ${RAN('4.13.1')}`);
    const looks = node.runtime.looks();
    await unpin('ocp@4.13.1', { force: true });
    expect(node.runtime.looks()).toBe(looks);
    expect(unpinned()).toEqual(['ocp 4.13.1 was unpinned by hand']);
  });

  it.each([
    { what: 'the runtime', fail: () => (node.runtime.isUp = false) },
    { what: 'its list of containers', fail: () => (node.runtime.containers = () => Promise.reject(new Error('no'))) },
  ])(
    'unpin succeeds without $what if nothing known is against it, and the history states what was unknown',
    async ({ fail }) => {
      await start();
      await prove(A);
      await prove(B);
      fail();
      await expect(unpin('ocp@4.13.2')).rejects.toThrow(`when the container runtime answered last, ${RAN('4.13.2')}`);
      await unpin('ocp@4.13.1');
      expect(unpinned()).toEqual([
        'ocp 4.13.1 was unpinned by hand; whether it runs could not be seen, since the container runtime did not answer',
      ]);
    },
  );

  it('says how to activate an unpinned release again', async () => {
    await start();
    await prove(A);
    await prove(B);
    await unpin('ocp@4.13.1', { removeImages: true });
    await node.clock.advance(MINUTE);
    expect(() => node.engine.commands.activate({ bundle: 'ocp@4.13.1' })).toThrow(
      /retired and 2 of its images are gone; plug in its stick/,
    );
  });
});
