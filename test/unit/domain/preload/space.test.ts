import { describe, expect, it } from 'vitest';
import type { LayerStorage, RuntimeObservation } from '../../../../src/domain/model/image.ts';
import { diskUse } from '../../../../src/domain/preload/space.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { RunningTask, TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  artifactBlobs,
  found,
  GIB,
  judge,
  layer,
  listed,
  MIB,
  medium,
  NOON,
  observation,
  POLICY,
  pinsOf,
  pullOf,
  reachable,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf, told } from '../../../support/daemon/told.ts';

const bundle = verified();
const adopted = stored(bundle);
const media = [medium('sdb1', [found(bundle)])];
/** It takes no artifacts. */
const older = reachable({ name: 'cri-o 1.35.4' });
type Reachable = Extract<RuntimeObservation, { kind: 'reachable' }>;

const seen = (over: Partial<Reachable>, rest: Parameters<typeof observation>[0] = {}, policy: Partial<Policy> = {}) =>
  judge(
    observation({
      media,
      pinsRequested: { references: pinsOf(bundle), unpinned: '', attempts: 1, at: NOON },
      runtime: reachable({ renderedMirrors: ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd'], ...over }),
      ...rest,
    }),
    [adopted],
    { ...POLICY, ...policy },
  );
/** What the runtime lays down beside the bundle's layers: less than 1 MiB. */
const beside = (storage: LayerStorage) =>
  diskUse(
    bundle.contents.layers.map((layer) => ({ ...layer, diskBytes: 0, sizeBytes: 0 })),
    bundle.contents.images.length,
    storage,
  );
/**
 * 40 GiB, of which 6 GiB are reserved and `roomMiB` are for layers; the bundle takes 75 MiB
 * unpacked, and 30 MiB compressed.
 */
const disk = (roomMiB: number, storage: LayerStorage = 'unpacked') => ({
  path: '/var/lib/containers',
  totalBytes: 40 * GIB,
  freeBytes: 6 * GIB + roomMiB * MIB + beside(storage).bytes,
});

describe('held (space)', () => {
  it('states the filesystem, what is needed and free, and what stays free by which setting and for whom', () => {
    expect(told(seen({ filesystem: disk(74) }).first)).toMatchObject({
      phase: 'held',
      hold: 'space',
      reason: {
        code: 'engine/no-space',
        message:
          "Not enough space for ocp 4.13.7 on /var/lib/containers: needs 75 MiB, 6.1 GiB free, 6.0 GiB (15 %) kept. The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods. Free space there. 'stickpin unpin' gives up an old release",
      },
    });
    expect(seen({ filesystem: disk(75) }).first?.phase).toBe('preloading');
  });

  it('keeps 5 % where no kubelet is, and what the setting says everywhere', () => {
    const withoutKubelet = { facts: { ...observation().facts, hasKubelet: false } };
    const tight = { ...disk(75), freeBytes: disk(75).freeBytes - 4 * GIB };
    expect(seen({ filesystem: tight }).first?.hold).toBe('space');
    expect(seen({ filesystem: tight }, withoutKubelet).first?.phase).toBe('preloading');
    const full = { ...tight, freeBytes: tight.freeBytes - MIB };
    const own = seen({ filesystem: full }, withoutKubelet).first?.reason;
    expect(textOf(own)).toContain('2.0 GiB (5 %) kept. The setting preload.min_free_percent says how much');
    const policy = { preload: { ...POLICY.preload, min_free_percent: 15 } };
    expect(textOf(seen({ filesystem: tight }, withoutKubelet, policy).first?.reason)).toContain('(15 %) kept');
  });

  it('counts the compressed layers too where the runtime keeps them', () => {
    expect(seen({ filesystem: disk(105, 'both'), layerStorage: 'both' }).first?.phase).toBe('preloading');
    expect(textOf(seen({ filesystem: disk(104, 'both'), layerStorage: 'both' }).first?.reason)).toContain(
      'needs 105 MiB',
    );
  });

  it('counts layers that stickpin keeps on the same filesystem, unless they are kept already', () => {
    const policy: Partial<Policy> = { retention: { ...POLICY.retention, blobs: 'kept' } };
    const at = (roomMiB: number, over: Parameters<typeof observation>[0] = {}) =>
      seen({ filesystem: disk(roomMiB) }, { layersBesideImages: true, ...over }, policy).first;
    expect(at(105)?.phase).toBe('preloading');
    expect(textOf(at(104)?.reason)).toContain('needs 105 MiB');
    expect(at(75, { layersBesideImages: false })?.phase).toBe('preloading');
    const localBlobs = new Set(bundle.contents.layers.map(({ digest }) => digest));
    expect(at(75, { localBlobs })?.phase).toBe('preloading');
    expect(seen({ filesystem: disk(75) }, { layersBesideImages: true }).first?.phase).toBe('preloading');
    const keep_components = bundle.contents.images.flatMap(({ component = [] }) => component);
    expect(keep_components).not.toEqual([]);
    const single = { retention: { ...POLICY.retention, keep_components } };
    const { reason } = seen({ filesystem: disk(104) }, { layersBesideImages: true }, single).first ?? {};
    expect(textOf(reason)).toContain('needs 105 MiB');
  });

  it('counts what artifacts lack, also when every image is there', () => {
    const spec = { images: { etcd: ['etcd'] }, artifacts: { small: ['model'] } };
    const release = stored(verified(spec));
    const needed = (over: Parameters<typeof observation>[0]) =>
      judge(observation({ layersBesideImages: true, runtime: older, ...over }), [release]).first?.disk?.neededBytes;
    const use = diskUse([layer('etcd')], 1, 'unpacked').bytes;
    expect(needed({})).toBe(use + 10 * MIB);
    expect(needed({ localBlobs: new Set([layer('model').digest]) })).toBe(use);
    // The free bytes are without these already, so that a copy goes on until it is whole.
    expect(needed({ layerParts: new Map([[layer('model').digest, 4 * MIB]]) })).toBe(use + 6 * MIB);
    expect(needed({ layersBesideImages: false })).toBe(use);
    expect(needed({ runtime: { ...older, images: allListed(release) } })).toBe(10 * MIB);
  });

  it('counts the copies of artifacts in CRI-O, as far as it does not list them', () => {
    const release = stored(verified({ images: { etcd: ['etcd'] }, artifacts: { small: ['model'] } }));
    const [small] = release.contents.artifacts ?? [];
    const needed = (runtime: RuntimeObservation, running: readonly RunningTask[] = []) =>
      judge(observation({ layersBesideImages: true, localBlobs: artifactBlobs(release), runtime, running }), [release])
        .first?.disk?.neededBytes;
    const images = allListed(release);
    const reference = small?.reference ?? '';
    expect(needed({ ...older, images })).toBe(0);
    expect(needed(reachable({ images }))).toBe(10 * MIB);
    expect(needed(reachable({ images }), [{ kind: 'pull', bundleId: release.bundleId, reference }])).toBe(0);
    expect(needed(reachable({ images: [...images, listed(reference)] }))).toBe(0);
  });

  it('counts the artifacts of the releases before it, too', () => {
    const update = { barrier: { reason: 'storage is migrated' } };
    const before = stored(verified({ version: '4.13.6', sequence: 6, artifacts: { small: ['model'] }, update }));
    const after = stored(verified({ version: '4.13.8', sequence: 8, images: { next: ['next'] } }));
    const current = stored(verified({ version: '4.13.5', sequence: 5, images: { old: ['old'] } }), {
      readyAt: NOON,
      activatedAt: NOON,
    });
    const images = [...allListed(before), ...allListed(current)];
    const scene = observation({ layersBesideImages: true, runtime: { ...older, images } });
    const of = (bundles: readonly StoredBundle[]) =>
      judge(scene, bundles).assessment.bundles.at(-1)?.disk?.neededBytes ?? 0;
    expect(of([current, before, after]) - of([current, after])).toBe(10 * MIB);
  });

  it('counts the larger one of two twins, and copies of both where layers are kept', () => {
    const over = { zstd: { diffId: layer('gzip').diffId, sizeBytes: MIB } };
    const twins = stored(verified({ images: { etcd: ['gzip', 'zstd'] }, layers: over }));
    const needed = (blobs: Policy['retention']['blobs']) =>
      judge(observation({ layersBesideImages: true, runtime: reachable() }), [twins], {
        ...POLICY,
        retention: { ...POLICY.retention, blobs },
      }).first?.disk?.neededBytes ?? 0;
    const use = diskUse([layer('gzip')], 1, 'unpacked').bytes;
    expect([needed('metadata'), needed('kept')]).toEqual([use, use + layer('gzip').sizeBytes + MIB]);
  });

  it('states missing inodes', () => {
    const filesystem = { ...disk(1_000), inodes: { total: 1_000, free: 496 } };
    expect(textOf(seen({ filesystem }).first?.reason)).toBe(
      "Not enough inodes for ocp 4.13.7 on /var/lib/containers: needs 347, 496 free, 150 (15 %) kept. The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods. Remove files there. 'stickpin unpin' gives up an old release",
    );
    expect(seen({ filesystem: { ...filesystem, inodes: { total: 1_000, free: 497 } } }).first?.phase).toBe(
      'preloading',
    );
  });

  it('names the filesystem on which blobs are staged', () => {
    const staging = { path: '/var/tmp', totalBytes: 100 * MIB, freeBytes: 44 * MIB };
    expect(textOf(seen({ staging }).first?.reason)).toBe(
      'Not enough space for ocp 4.13.7 on /var/tmp: the runtime stages 30 MiB there while it pulls, 44 MiB free, 15 MiB (15 %) kept. The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods. Free space there',
    );
    expect(seen({ staging: { ...staging, freeBytes: 45 * MIB } }).first?.phase).toBe('preloading');
  });

  it('counts what is staged on the filesystem of the images as needed there, and retires older releases for it', () => {
    const at = (roomMiB: number) => seen({ filesystem: disk(roomMiB), staging: 'with-images' });
    expect(at(105).first?.phase).toBe('preloading');
    const { first, assessment } = at(104);
    expect(textOf(first?.reason)).toBe(
      "Not enough space for ocp 4.13.7 on /var/lib/containers: needs 105 MiB, 6.1 GiB free, 6.0 GiB (15 %) kept. The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods. Free space there. 'stickpin unpin' gives up an old release",
    );
    expect(assessment.short).toEqual([{ bundle: adopted, lacking: { bytes: MIB, inodes: 0 } }]);
  });

  it('counts neither running pulls nor their staged layers, which use free space already', () => {
    const running = [pullOf(bundle, 'etcd')];
    const staged = (parallel: number) =>
      seen(
        { filesystem: disk(1_000), staging: 'with-images' },
        { running },
        { preload: { ...POLICY.preload, parallel } },
      ).first?.disk?.neededBytes;
    const [api] = bundle.contents.images.filter(({ reference }) => reference.includes('/api@'));
    const layers = api?.layers.flatMap((at) => bundle.contents.layers[at] ?? []) ?? [];
    const etcd = bundle.contents.images.find(({ reference }) => reference.includes('/etcd@'));
    const own = layers.filter((layer) => !etcd?.layers.some((at) => bundle.contents.layers[at] === layer));
    expect(own).toHaveLength(1);
    expect(staged(1)).toBe(diskUse(own, 1, 'unpacked').bytes);
    expect(staged(2)).toBe(diskUse(own, 1, 'unpacked').bytes + 10 * MIB);
  });
});

describe('the space that retired releases free', () => {
  const elsewhere = (freeBytes: number) => ({ path: '/var/tmp', totalBytes: 100 * MIB, freeBytes });
  const inodes = { total: 1_000, free: 496 };
  const full: TaskFailure = {
    task: pullOf(bundle, 'etcd'),
    attempts: 1,
    reason: { code: 'runtime/no-space', message: 'full' },
    retryAt: NOON + 1_000,
  };
  const lacking = (bytes: number, inodes = 0) => [{ bundle: adopted, lacking: { bytes, inodes } }];

  it.each<[what: string, over: Partial<Reachable>, short: unknown, failures?: TaskFailure[]]>([
    ['nothing, when all fits', { filesystem: disk(75) }, []],
    ['bytes for the images', { filesystem: disk(74) }, lacking(MIB)],
    [
      'all of the reserve that lacks too',
      { filesystem: { ...disk(0), freeBytes: 0 } },
      lacking(6 * GIB + 75 * MIB + beside('unpacked').bytes),
    ],
    ['inodes', { filesystem: { ...disk(1_000), inodes } }, lacking(0, 1)],
    ['both', { filesystem: { ...disk(74), inodes } }, lacking(MIB, 1)],
    ['staging beside the images', { filesystem: disk(104), staging: 'with-images' }, lacking(MIB)],
    ['nothing, when staging lacks elsewhere', { staging: elsewhere(44 * MIB) }, []],
    ['nothing, when it would still lack elsewhere', { filesystem: disk(74), staging: elsewhere(44 * MIB) }, []],
    ['the images, when staging elsewhere fits', { filesystem: disk(74), staging: elsewhere(45 * MIB) }, lacking(MIB)],
    ['a disk that filled up all the same', {}, lacking(1), [full]],
    ['nothing, when it may be the one for staging that filled up', { staging: elsewhere(45 * MIB) }, [], [full]],
  ])('%s', (_what, over, short, failures = []) => {
    expect(seen(over, { failures }).assessment.short).toEqual(short);
  });
});

describe('a disk that filled up in mid-pull', () => {
  const tools = verified({ name: 'tools', images: { shell: ['shell'] } });
  const full: TaskFailure = {
    task: pullOf(bundle, 'etcd'),
    attempts: 1,
    reason: { code: 'runtime/no-space', message: "the runtime's disk is full while pulling etcd" },
    retryAt: NOON + 1_000,
  };
  const node = (over: Parameters<typeof observation>[0]) =>
    judge(
      observation({
        media: [medium('sdb1', [found(bundle), found(tools)])],
        pinsRequested: { references: pinsOf(bundle, tools), unpinned: '', attempts: 1, at: NOON },
        runtime: reachable({ renderedMirrors: ['api', 'etcd', 'shell'].map((name) => `quay.example.com/ocp/${name}`) }),
        ...over,
      }),
      [adopted, stored(tools)],
    );

  it('cancels every pull, also of other bundles, and starts none', () => {
    const { decision } = node({ failures: [full], running: [pullOf(tools, 'shell')] });
    expect(spoken(decision.effects)).toEqual(['cancel shell']);
  });

  it('holds every bundle that lacks images, with what happened, and keeps all pins', () => {
    const { assessment, decision } = node({ failures: [full] });
    expect(assessment.bundles.map(({ phase, hold, reason }) => [phase, hold, reason?.code])).toEqual([
      ['held', 'space', 'runtime/no-space'],
      ['held', 'space', 'runtime/no-space'],
    ]);
    expect(decision.effects.filter(({ kind }) => kind === 'apply-pins')).toEqual([]);
    expect(decision.wakeAt).toBe(NOON + 1_000);
  });

  it('continues automatically when the pause is over and the estimate says that it fits', () => {
    expect(spoken(node({ failures: [full], now: NOON + 1_000 }).decision.effects)).toEqual(['pull etcd', 'pull shell']);
    const tight = seen({ filesystem: disk(10) }, { failures: [full], now: NOON + 1_000 });
    expect(tight.first?.reason?.code).toBe('engine/no-space');
    expect(tight.decision.effects.filter(({ kind }) => kind === 'start')).toEqual([]);
  });

  it('has no effect once the image is present', () => {
    const images = [listed(full.task.kind === 'pull' ? full.task.reference : '')];
    expect(seen({ images }, { failures: [] }).first?.phase).toBe('preloading');
  });
});
