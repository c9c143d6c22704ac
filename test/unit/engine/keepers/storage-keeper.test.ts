import { describe, expect, it } from 'vitest';
import type { RuntimeImage } from '../../../../src/domain/model/image.ts';
import { StorageKeeper } from '../../../../src/engine/keepers/storage-keeper.ts';
import { Jobs } from '../../../../src/engine/tasks/jobs.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { deferred } from '../../../../src/platform/async/abort.ts';
import {
  found,
  judge,
  listed,
  observation,
  reachable,
  referenceOf,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createFakeNode, type FakeNode } from '../../../support/fake-ports.ts';

const bundle = verified({ images: { etcd: ['base', 'etcd'], api: ['base', 'api'] } });
const manual = verified({ images: { etcd: ['base', 'etcd'], api: ['base', 'api'] }, schedule: 'manual' });
const references = bundle.contents.images.map(({ reference }) => reference);

/** With all blobs on a stick that is plugged in. */
function loading(release = bundle, node = createFakeNode()): FakeNode {
  for (const { digest } of release.contents.layers) node.blobs.set(digest, Buffer.from('x'));
  node.media.plug('sda1', [found(release)]);
  return node;
}

/** Syncs wait until they are let go. */
function heldSyncs(node: FakeNode) {
  const held: ReturnType<typeof deferred<void>>[] = [];
  node.disk.sync = () => {
    const one = deferred<void>();
    held.push(one);
    return one.promise;
  };
  return { held, end: () => held.pop()?.resolve(), fail: (error: unknown) => held.pop()?.reject(error) };
}

const slow = () => new AppError({ code: 'host/sync', message: 'the disk does not answer', disposition: 'retry' });
const readyAt = (node: FakeNode) => node.store.load().bundles[0]?.readyAt;
const report = (node: FakeNode) => node.engine.report();

describe('the sync of what the runtime stored', () => {
  it('comes before a release is recorded or said to be ready, once for all its images', async () => {
    const node = loading(manual);
    const syncs = heldSyncs(node);
    await node.start();
    await node.clock.advance(20_000);
    expect([...node.runtime.images.keys()].sort()).toEqual([...references].sort());
    expect([readyAt(node), node.phase('4.13.7'), node.disk.syncs]).toEqual([undefined, 'preloading', 1]);
    expect(report(node)?.status).toMatch(
      /^LEAVE THE STICK IN \(R-26\): Writing 2 images of ocp 4\.13\.7 to the disk for \d+ s so far/,
    );
    syncs.end();
    await node.clock.advance(1_000);
    expect([node.phase('4.13.7'), node.disk.syncs]).toEqual(['ready', 1]);
    expect(readyAt(node)).toBeDefined();
    expect(report(node)?.status).toMatch(/remove the stick/i);
    await node.stop();
  });

  it('comes before an activation is recorded, after its tags were given', async () => {
    const node = loading();
    const syncs = heldSyncs(node);
    await node.start();
    await node.clock.advance(20_000);
    syncs.end();
    await node.clock.advance(5_000);
    const [release] = node.store.load().bundles;
    expect(node.runtime.images.has('quay.example.com/ocp/etcd:4.13.7')).toBe(true);
    expect([node.disk.syncs, release?.activatedAt]).toEqual([2, undefined]);
    expect(report(node)?.status).toMatch(/^LEAVE THE STICK IN/);
    syncs.end();
    await node.clock.advance(1_000);
    expect(node.store.load().bundles[0]?.activatedAt).toBeDefined();
    expect(report(node)?.status).toMatch(/^DONE/);
    await node.stop();
  });

  it('is repeated with growing pauses while it fails, and STATUS says why', async () => {
    const node = loading(manual);
    node.disk.sync = () => Promise.reject(slow());
    await node.start();
    await node.clock.advance(20_000);
    expect(report(node)?.status).toMatch(/^CALL SUPPORT \(D-07\): the disk does not answer/);
    await node.clock.advance(3_600_000);
    const { syncs } = node.disk;
    expect(syncs).toBeGreaterThan(10);
    expect(syncs).toBeLessThan(25);
    expect([readyAt(node), node.phase('4.13.7')]).toEqual([undefined, 'held']);
    node.disk.sync = async () => undefined;
    await node.clock.advance(330_000);
    expect(node.phase('4.13.7')).toBe('ready');
    await node.stop();
  });

  it('is made again for an image that was missing, also of a release that was recorded as ready', async () => {
    const node = loading(
      bundle,
      createFakeNode([stored(bundle, { readyAt: 1, activatedAt: 3, activeAt: 4, provenAt: 4 })]),
    );
    for (const { reference, tags } of bundle.contents.images)
      for (const name of [reference, ...tags]) node.runtime.images.set(name, reference);
    await node.start();
    await node.clock.advance(60_000);
    expect(node.disk.syncs).toBe(1);
    expect(report(node)?.status).toMatch(/^DONE/);
    const syncs = heldSyncs(node);
    node.runtime.images.delete(referenceOf('etcd'));
    await node.clock.advance(60_000);
    expect(node.runtime.images.has(referenceOf('etcd'))).toBe(true);
    expect(node.disk.syncs).toBe(2);
    expect(report(node)?.status).toMatch(/^LEAVE THE STICK IN \(R-26\): Writing 1 image of/);
    syncs.end();
    await node.clock.advance(1_000);
    expect(report(node)?.status).toMatch(/^DONE/);
    await node.stop();
  });

  it('covers no image that was pulled while it ran', async () => {
    const node = loading(manual);
    const { etcd, api } = { etcd: referenceOf('etcd'), api: referenceOf('api') };
    const syncs = heldSyncs(node);
    const pull = deferred<void>();
    const { onPull } = node.runtime;
    node.runtime.onPull = async (reference, signal) => {
      if (reference === api) await pull.promise;
      await onPull(reference, signal);
    };
    node.runtime.images.set(etcd, etcd);
    await node.start();
    // Another stick with the rest may be needed: what is there is synced while nothing is pulled.
    await node.clock.advance(20_000);
    pull.resolve();
    await node.clock.advance(20_000);
    while (syncs.held.length > 0) {
      expect(readyAt(node)).toBeUndefined();
      syncs.end();
      await node.clock.advance(1_000);
    }
    expect(node.phase('4.13.7')).toBe('ready');
    await node.stop();
  });

  it('keeps the mark of a run when the daemon stops before it has ended', async () => {
    const [behind, done] = [loading(manual), loading(manual)];
    heldSyncs(behind);
    for (const node of [behind, done]) {
      await node.start();
      await node.clock.advance(20_000);
    }
    const stopped = behind.stop();
    behind.disk.sync = async () => undefined;
    await Promise.race([stopped, done.stop()]);
    expect([behind.bootMark.isKept, done.bootMark.isKept]).toEqual([true, false]);
  });
});

describe('what may be in memory only', () => {
  it('keeps the mark of a run in which the runtime never answered', async () => {
    const node = loading(manual, createFakeNode([stored(manual)]));
    node.runtime.isUp = false;
    await node.start();
    await node.stop();
    expect(node.bootMark.isKept).toBe(true);
  });

  it('keeps the mark when the runtime went away, or removed the images, while a sync ran', async () => {
    const [away, removed] = [loading(manual), loading(manual)];
    for (const node of [away, removed]) {
      node.disk.sync = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(slow())));
      await node.start();
      await node.clock.advance(20_000);
    }
    away.runtime.isUp = false;
    removed.runtime.images.clear();
    removed.media.unplug('sda1');
    for (const node of [away, removed]) {
      node.runtime.emit();
      await node.clock.advance(20_000);
      await node.stop();
    }
    expect([away.bootMark.isKept, removed.bootMark.isKept]).toEqual([true, true]);
  });

  it('is an image that the runtime had not unpacked before the sync', async () => {
    const { clock, log, bootMark } = createFakeNode();
    const disk = { sync: async () => undefined };
    const keeper = new StorageKeeper(new Jobs(clock, () => undefined), clock, log, disk, bootMark);
    const [etcd = '', api = ''] = references;
    const sync = async (...images: RuntimeImage[]) => {
      const runtime = reachable({ images });
      keeper.observe(observation({ runtime }));
      const observed = observation({ runtime, storage: keeper.syncs() });
      const { assessment } = judge(observed, [stored(bundle)]);
      keeper.reconcile({
        observed,
        memory: observed,
        assessment,
        conditions: new Map(),
        plan: undefined,
        isIdle: true,
      });
      await clock.advance(1);
      return [...(keeper.syncs()?.synced ?? [])];
    };
    expect(await sync(listed(etcd), { ...listed(api), isUnpacked: false })).toEqual([etcd]);
    expect(await sync(listed(etcd), listed(api))).toEqual([etcd, api]);
    expect(await sync(listed(etcd), { ...listed(api), isUnpacked: false })).toEqual([etcd]);
  });
});

describe('a release that was not complete before a power cut', () => {
  it('is ready only once its images were checked', async () => {
    const node = loading(manual, createFakeNode([stored(manual)]));
    for (const reference of references) node.runtime.images.set(reference, reference);
    node.bootMark.isDue = true;
    const check = deferred<void>();
    node.runtime.beforeCheck = () => check.promise;
    await node.start();
    await node.clock.advance(20_000);
    expect([readyAt(node), node.phase('4.13.7')]).toEqual([undefined, 'preloading']);
    expect(report(node)?.status).toMatch(/^LEAVE THE STICK IN/);
    check.resolve();
    await node.clock.advance(20_000);
    expect(node.phase('4.13.7')).toBe('ready');
    await node.stop();
  });
});
