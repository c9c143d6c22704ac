import { describe, expect, it } from 'vitest';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  layer,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  referenceOf,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf, told } from '../../../support/daemon/told.ts';

const bundle = verified();
const adopted = stored(bundle);
const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
const stick = medium('sdb1', [found(bundle)]);
const phase = (over: Partial<Scene>, entry: StoredBundle = adopted) => judge(observation(over), [entry]).first;

describe('the phase of a release', () => {
  it.each<[when: string, over: Partial<Scene>, is: object, entry?: StoredBundle]>([
    ['the stick is in', { media: [stick] }, { phase: 'preloading', media: ['sdb1'] }],
    [
      'the runtime is away before it was ever ready',
      { media: [stick], runtime: { kind: 'unreachable', reason: 'connection refused' } },
      { phase: 'held', hold: 'runtime', reason: { code: 'runtime/unreachable', message: 'connection refused' } },
    ],
    [
      'the runtime answers and lists no images',
      { media: [stick], runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' } },
      { phase: 'held', hold: 'runtime', reason: { code: 'runtime/unlisted', message: 'database is locked' } },
    ],
    [
      'the runtime is too old to report pins, though all is there',
      { runtime: reachable({ name: 'containerd 1.6.20~ds1', images: allListed(bundle) }) },
      { phase: 'held', hold: 'runtime-version', reason: { code: 'runtime/version' } },
    ],
    [
      'the runtime is too old, after activation',
      { runtime: reachable({ name: 'containerd 1.6.20~ds1' }) },
      { phase: 'activated', reason: { code: 'runtime/version' } },
      active,
    ],
    [
      'the runtime is away after activation',
      { runtime: { kind: 'unreachable', reason: 'connection refused' } },
      { phase: 'activated', reason: { code: 'runtime/unreachable', message: 'connection refused' } },
      active,
    ],
    [
      "the runtime's own configuration does not allow it",
      {
        media: [stick],
        obstacle: { code: 'runtime/config', message: 'Rendering the mirrors failed: no config_path' },
      },
      { phase: 'held', hold: 'runtime', reason: { message: 'Rendering the mirrors failed: no config_path' } },
    ],
    [
      'something else could not be done',
      { media: [stick], obstacle: { code: 'media/read', message: 'Reading sdc1 failed' } },
      { phase: 'preloading' },
    ],
    [
      'it is in the way while a pull that began before still runs',
      {
        media: [stick],
        running: [pullOf(bundle, 'etcd')],
        obstacle: { code: 'runtime/config', message: 'no config_path' },
      },
      { phase: 'preloading' },
    ],
    ['all is there', { runtime: reachable({ images: allListed(bundle) }) }, { phase: 'ready' }],
    [
      'all is there and it was activated',
      { runtime: reachable({ images: allListed(bundle) }) },
      { phase: 'activated', absentImages: [], unpinnedImages: [] },
      active,
    ],
    [
      'readyAt is set but an image is gone, and so is the stick',
      { runtime: reachable({ images: [listed(referenceOf('etcd'))] }) },
      {
        phase: 'held',
        hold: 'media',
        reason: {
          code: 'engine/image-missing',
          message: expect.stringMatching(
            /^1 of 2 images of ocp 4\.13\.7 is missing\. The missing one is quay\S+\. Plug in the stick of ocp 4\.13\.7$/,
          ),
        },
      },
      stored(bundle, { readyAt: NOON }),
    ],
    [
      'readyAt is set but an image is gone, and the stick is in',
      { media: [stick], runtime: reachable({ images: [listed(referenceOf('etcd'))] }) },
      { phase: 'preloading' },
      stored(bundle, { readyAt: NOON }),
    ],
    [
      'it was activated and an image is gone',
      { runtime: reachable({ images: [listed(referenceOf('etcd'))] }) },
      { phase: 'activated', reason: { code: 'engine/image-missing' } },
      active,
    ],
    [
      'images are present and not pinned yet',
      { runtime: reachable({ images: [listed(referenceOf('etcd'), false), listed(referenceOf('api'))] }) },
      {
        phase: 'preloading',
        reason: {
          code: 'runtime/pins-pending',
          message: '1 of 2 images of ocp 4.13.7 is present and not pinned yet',
        },
      },
    ],
    [
      'the stick was removed in mid-pull: the pull may still be held',
      { running: [pullOf(bundle, 'etcd')] },
      { phase: 'preloading', media: [] },
    ],
    [
      'the stick was removed and no pull is left',
      {},
      {
        phase: 'held',
        hold: 'media',
        reason: {
          code: 'engine/no-source',
          message: 'Stick removed while preloading ocp 4.13.7 (0/2 images). Plug it in again to continue',
        },
      },
    ],
    [
      'the stick is read again, as after a rescan, and no pull is left',
      {
        media: [medium('sdb1', { kind: 'mounted' })],
        lastCarriers: new Map([
          [bundle.bundleId, { mediumId: '7-sdb1', label: 'sdb1', isDropFolder: false, seenMs: 0 }],
        ]),
      },
      {
        phase: 'held',
        hold: 'media',
        reason: {
          code: 'media/reading',
          message: 'sdb1 is read again; then ocp 4.13.7 continues (0/2 images present)',
        },
      },
    ],
  ])('%s', (_when, over, is, entry) => {
    expect(told(phase(over, entry))).toMatchObject(is);
  });

  describe('of a release that was rolled back', () => {
    const [was, newer] = [stored(bundle), stored(verified({ version: '4.13.8', sequence: 8 }))];
    const back = { readyAt: 1, activatedAt: 30, rolledBackAt: 40, rolledBackReason: 'B was rolled back' };
    const images = [...allListed(was), ...allListed(newer)];
    const phaseAfter = (it: Partial<StoredBundle>, other: Partial<StoredBundle>) => {
      const bundles = [
        { ...was, ...it },
        { ...newer, readyAt: 1, ...other },
      ];
      const { phase, reason } = judge(observation({ runtime: reachable({ images }) }), bundles).first ?? {};
      return { phase, code: reason?.code, message: textOf(reason) };
    };
    const message = expect.stringMatching(
      /^B was rolled back\. It is not activated again automatically\. 'stickpin activate /,
    );
    const told = { code: 'engine/rolled-back', message };

    it.each<{ is: string; it: Partial<StoredBundle>; other: Partial<StoredBundle> }>([
      { is: 'activated', it: back, other: { activatedAt: 50 } },
      { is: 'superseded', it: { ...back, provenAt: 10 }, other: { activatedAt: 50, provenAt: 60 } },
      { is: 'proven', it: { ...back, provenAt: 35 }, other: { activatedAt: 50 } },
    ])('has the reason, $is', ({ is, it, other }) => {
      expect(phaseAfter(it, other)).toEqual({ phase: is, ...told });
    });

    it('has no such reason once it was activated again', () => {
      const again = { ...back, provenAt: 35, activatedAt: 70 };
      expect(phaseAfter(again, { activatedAt: 50 })).toEqual({
        phase: 'activated',
        code: undefined,
        message: undefined,
      });
    });
  });

  it('waits for the node that is busy when those that are not lack what it has', () => {
    const api = layer('api').digest;
    const node = (label: string, isReady: boolean, lacksApi: boolean) => ({
      ...medium(label, [found(bundle, lacksApi ? [{ digest: api, why: 'absent' }] : [])]),
      peer: { isReady, ...(!isReady && { queue: { place: 1, waiting: 2 } }) },
    });
    const runtime = reachable({ images: [listed(referenceOf('etcd'))] });
    const some = phase({ runtime, media: [node('worker-2', true, true), node('worker-3', false, false)] });
    expect(some).toMatchObject({
      phase: 'held',
      hold: 'media',
      reason: { code: 'media/peer-waited-for', data: { peer: 'worker-3', queue: { place: 1, waiting: 2 } } },
    });
    const none = phase({ runtime, media: [node('worker-2', true, true), node('worker-3', false, true)] });
    expect(none).toMatchObject({ reason: { code: 'bundle/blob-missing', data: { blobs: 1 } } });
  });

  it('is held with a reason when pins were requested four times and are not reported', () => {
    const images = [listed(referenceOf('etcd'), false), listed(referenceOf('api'))];
    const asked = (attempts: number) =>
      phase({
        runtime: reachable({ images }),
        pinsRequested: { references: [], unpinned: referenceOf('etcd'), attempts, at: NOON },
      });
    expect(asked(3)).toMatchObject({ phase: 'preloading', reason: { code: 'runtime/pins-pending' } });
    expect(asked(4)).toMatchObject({ phase: 'held', hold: 'runtime', reason: { code: 'runtime/pins-ignored' } });
    expect(textOf(asked(4)?.reason)).toContain('after 4 tries');
  });

  it('is degraded by a file that overrides its pins, before and after CRI-O has read it', () => {
    const pinFault = { code: 'runtime/config', message: '/etc/crio/crio.conf.d/99-z.conf sets pinned_images' };
    const seen = (pinned: boolean) =>
      phase({
        runtime: reachable({ images: [listed(referenceOf('etcd'), pinned), listed(referenceOf('api'))], pinFault }),
      });
    expect(seen(true)).toMatchObject({ phase: 'ready', degraded: pinFault });
    expect(seen(false)).toMatchObject({ phase: 'held', reason: { code: 'runtime/pins-ignored' } });
    expect(textOf(seen(false)?.reason)).toContain('99-z.conf');
  });

  it('holds for space with what is needed, what is free and what is reserved', () => {
    const filesystem = { path: '/var/lib/containers', totalBytes: 40 * 1024 ** 3, freeBytes: 6.05 * 1024 ** 3 };
    expect(told(phase({ media: [stick], runtime: reachable({ filesystem }) }))).toMatchObject({
      phase: 'held',
      hold: 'space',
      reason: {
        code: 'engine/no-space',
        message:
          "Not enough space for ocp 4.13.7 on /var/lib/containers: needs 75 MiB, 6.0 GiB free, 6.0 GiB (15 %) kept. The setting preload.min_free_percent keeps that free for the kubelet, which otherwise removes images and ends pods. Free space there. 'stickpin unpin' gives up an old release",
      },
    });
  });

  it('needs space only for missing images', () => {
    const filesystem = { path: '/var', totalBytes: 0, freeBytes: 26 * 1024 ** 2 };
    const runtime = reachable({ images: [listed(referenceOf('etcd'))], filesystem });
    expect(phase({ media: [stick], runtime })).toMatchObject({
      phase: 'preloading',
      // A layer of 25 MiB in 100 files, and what an image with one layer takes beside it.
      disk: { neededBytes: 25 * 1024 ** 2 + 100 * 640 + (34 + 24 + 40) * 1024 },
    });
    expect(phase({ media: [stick], runtime: reachable({ filesystem: undefined }) })).toMatchObject({
      phase: 'preloading',
    });
  });
});
