import { describe, expect, it } from 'vitest';
import type { LayerStorage, RuntimeImage } from '../../../../src/domain/model/image.ts';
import type { PinsRequested, TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  listed,
  medium,
  NOON,
  observation,
  POLICY,
  pinsOf,
  pullOf,
  reachable,
  referenceOf,
  refused,
  type Scene,
  spoken,
  stored,
  UNSERVED,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const adopted = stored(bundle);
const stick = medium('sdb1', [found(bundle)]);
const pinned = (over: Partial<PinsRequested> = {}): PinsRequested => ({
  references: pinsOf(bundle),
  unpinned: '',
  attempts: 1,
  at: NOON,
  ...over,
});
/** Repositories of the default bundle, as they are mirrored. */
const mirrors = ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd'];
/** Pins rendered, mirrors in place, stick plugged in: nothing but pulls is left to do. */
const armed = (over: Partial<Scene> = {}, images: readonly RuntimeImage[] = []): Scene =>
  observation({
    media: [stick],
    pinsRequested: pinned(),
    runtime: reachable({ images, renderedMirrors: mirrors }),
    ...over,
  });
const effects = (observed: Scene, bundles: readonly StoredBundle[] = [adopted], policy = UNSERVED) =>
  spoken(judge(observed, bundles, policy).decision.effects);
const failure = (name: string, over: Partial<TaskFailure> = {}): TaskFailure => ({
  task: pullOf(bundle, name),
  attempts: 1,
  reason: { code: 'runtime/pull-failed', message: `${name} could not be pulled` },
  retryAt: NOON + 1_000,
  ...over,
});

describe('decide: from a medium to ready', () => {
  it.each<[event: string, observed: Scene, bundles: StoredBundle[], effects: string[]]>([
    [
      'a medium is plugged in: mount it; the pins are rendered once in any case',
      observation({ media: [medium('sdb1', { kind: 'attached' })] }),
      [],
      ['mount-medium 7-sdb1', 'apply-pins 0'],
    ],
    [
      'it is mounted: read it',
      observation({
        media: [medium('sdb1', { kind: 'mounted' })],
        pinsRequested: pinned({ references: [] }),
      }),
      [],
      ['read-medium 7-sdb1'],
    ],
    [
      'it carries a good bundle: keep its documents',
      observation({ media: [stick], pinsRequested: pinned({ references: [] }) }),
      [],
      ['keep-documents'],
    ],
    [
      'its documents are being kept: wait',
      observation({
        media: [{ ...stick, isBusy: true }],
        keeping: new Map([[bundle.bundleId, { done: 3, total: 4 }]]),
        pinsRequested: pinned({ references: [] }),
      }),
      [],
      [],
    ],
    [
      'they are kept: adopt it, also while its medium is read again',
      observation({
        media: [{ ...stick, isBusy: true }],
        keeping: new Map([[bundle.bundleId, { done: 4, total: 4 }]]),
        pinsRequested: pinned({ references: [] }),
      }),
      [],
      ['adopt-bundle'],
    ],
    [
      'it carries a rejected bundle only: nothing',
      observation({ media: [medium('sdb1', [refused()])], pinsRequested: pinned({ references: [] }) }),
      [],
      [],
    ],
    [
      'it can not be read: nothing',
      observation({
        media: [medium('sdb1', { kind: 'failed', reason: { code: 'media/mount', message: 'no' } })],
        pinsRequested: pinned({ references: [] }),
      }),
      [],
      [],
    ],
    [
      'adopted: pins first, mirrors with them, no pull yet',
      observation({ media: [stick], pinsRequested: pinned({ references: [] }) }),
      [adopted],
      ['apply-pins 2', 'apply-mirrors api etcd'],
    ],
    [
      'pins are rendered, mirrors are not',
      observation({ media: [stick], pinsRequested: pinned() }),
      [adopted],
      ['apply-mirrors api etcd'],
    ],
    ['both are in place: the first carrier of the shared layer alone', armed(), [adopted], ['pull etcd']],
    ['it runs: the other one waits for the shared layer', armed({ running: [pullOf(bundle, 'etcd')] }), [adopted], []],
    ['it is there: the other one', armed({}, [listed(referenceOf('etcd'))]), [adopted], ['pull api']],
    [
      'all are there and pinned: mirrors go away, the bundle is ready',
      armed({}, allListed(bundle)),
      [{ ...adopted, activationRequestedAt: NOON - 5, activatedAt: NOON - 4 }],
      ['apply-mirrors'],
    ],
  ])('%s', (_event, observed, bundles, wanted) => {
    expect(effects(observed, bundles)).toEqual(wanted);
  });

  it('records ready once, activates with mirrors for the tags, and then removes them', () => {
    const complete = { images: allListed(bundle) };
    const observed = observation({ pinsRequested: pinned(), runtime: reachable(complete) });
    expect(effects(observed)).toEqual(['apply-mirrors api etcd', 'record-ready']);
    const ready = { ...adopted, readyAt: NOON };
    const mirrored = { ...observed, runtime: reachable({ ...complete, renderedMirrors: mirrors }) };
    expect(effects(mirrored, [ready])).toEqual(['activate']);
    const task = { kind: 'activate', bundleId: bundle.bundleId } as const;
    expect(effects({ ...mirrored, running: [task] }, [ready])).toEqual([]);
    expect(effects(mirrored, [{ ...ready, activatedAt: NOON }])).toEqual(['apply-mirrors']);
  });

  it('schedule: manual waits for stickpin activate', () => {
    const manual = verified({ schedule: 'manual' });
    const ready = stored(manual, { readyAt: NOON });
    const runtime = reachable({ images: allListed(manual) });
    const observed = observation({ pinsRequested: pinned(), runtime });
    expect(effects(observed, [ready])).toEqual([]);
    const asked = { ...ready, activationRequestedAt: NOON };
    expect(effects(observed, [asked])).toEqual(['apply-mirrors api etcd']);
    const mirrored = { ...observed, runtime: reachable({ ...runtime, renderedMirrors: mirrors }) };
    expect(effects(mirrored, [asked])).toEqual(['activate']);
    expect(effects(observed, [{ ...asked, activatedAt: NOON + 1 }])).toEqual([]);
  });
});

describe('decide: present images', () => {
  it('pulls no present image, with any media plugged in', () => {
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(
      effects(
        observation({ media: [stick], pinsRequested: pinned(), runtime: reachable({ images: allListed(bundle) }) }),
        [active],
      ),
    ).toEqual([]);
  });

  it('pulls images again that a wiped runtime lost, while the stick is plugged in', () => {
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(effects(armed({}, allListed(bundle).slice(0, 1)), [active])).toEqual(['pull api']);
  });

  it('reads another node again that offers something else, and uses what it gave until then', () => {
    const read = { kind: 'read', bundles: [found(bundle)], trustRevision: 'keys-1' } as const;
    const peer = (isStale: boolean) => ({
      ...medium('worker-2', { ...read, ...(isStale && { isStale }) }),
      peer: { isReady: true },
    });
    const wanted = (isStale: boolean) =>
      effects(armed({ media: [peer(isStale)] }, allListed(bundle).slice(0, 1)), [stored(bundle)]);
    expect(wanted(false)).toEqual(['pull api']);
    expect(wanted(true)).toEqual(['read-medium 7-worker-2', 'pull api']);
  });

  it('reads a medium again when the trusted keys have changed', () => {
    expect(
      effects(armed({ trustRevision: 'keys-2' }, allListed(bundle)), [stored(bundle, { readyAt: 1, activatedAt: 1 })]),
    ).toEqual(['read-medium 7-sdb1', 'apply-mirrors']);
  });

  it.each([
    { kind: 'unreachable', reason: 'connection refused' },
    { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' },
  ] as const)('does nothing to a runtime that is $kind, and reads media all the same', (runtime) => {
    const media = [stick, medium('sdc1', { kind: 'attached' })];
    expect(effects(observation({ runtime, media }), [adopted])).toEqual(['mount-medium 7-sdc1']);
    expect(effects(observation({ runtime, media: [stick] }), [])).toEqual(['keep-documents']);
  });

  it('changes nothing in a runtime that is too old, except that mirrors are removed and tasks cancelled', () => {
    const runtime = reachable({ name: 'containerd v1.6.36', renderedMirrors: ['quay.example.com/ocp/etcd'] });
    const media = [stick, medium('sdc1', { kind: 'attached' })];
    const running = [pullOf(bundle, 'etcd')];
    expect(effects(observation({ runtime, media, running }), [adopted])).toEqual([
      'cancel etcd',
      'apply-mirrors',
      'mount-medium 7-sdc1',
    ]);
    const retired = { ...adopted, retiredAt: NOON, removeImages: true };
    const old = reachable({ name: 'containerd v1.6.36', images: allListed(bundle) });
    expect(effects(observation({ runtime: old, containers: [] }), [retired])).toEqual([]);
  });

  it('starts at most the allowed number of pulls', () => {
    const wide = verified({ images: { a: ['a'], b: ['b'], c: ['c'], d: ['d'], e: ['e'] } });
    const renderedMirrors = ['a', 'b', 'c', 'd', 'e'].map((name) => `quay.example.com/ocp/${name}`);
    const observed = observation({
      media: [medium('sdb1', [found(wide)])],
      pinsRequested: pinned({ references: pinsOf(wide) }),
      runtime: reachable({ renderedMirrors }),
    });
    const start = (parallel: number | 'auto', layerStorage: LayerStorage = 'unpacked') =>
      effects({ ...observed, runtime: reachable({ renderedMirrors, layerStorage }) }, [stored(wide)], {
        ...POLICY,
        preload: { ...POLICY.preload, parallel },
      });
    expect(start(1)).toEqual(['pull a']);
    expect(start(3)).toEqual(['pull a', 'pull b', 'pull c']);
    expect(start('auto')).toEqual(['pull a', 'pull b']);
    expect(start('auto', 'both')).toEqual(['pull a', 'pull b', 'pull c', 'pull d']);
  });

  it('lets pulls that share a layer run together with containerd only', () => {
    const shared = verified({ images: { a: ['s', 'a'], b: ['s', 'b'] } });
    const renderedMirrors = ['a', 'b'].map((name) => `quay.example.com/ocp/${name}`);
    const start = (layerStorage: LayerStorage) =>
      effects(
        observation({
          media: [medium('sdb1', [found(shared)])],
          pinsRequested: pinned({ references: pinsOf(shared) }),
          runtime: reachable({ renderedMirrors, layerStorage }),
        }),
        [stored(shared)],
      );
    expect(start('both')).toEqual(['pull a', 'pull b']);
    expect(start('unpacked')).toEqual(['pull a']);
  });

  it('counts running pulls too', () => {
    const wide = verified({ images: { a: ['a'], d: ['d'], e: ['e'] } });
    const renderedMirrors = ['a', 'd', 'e'].map((name) => `quay.example.com/ocp/${name}`);
    const observed = observation({
      media: [medium('sdb1', [found(wide)])],
      pinsRequested: pinned({ references: pinsOf(wide) }),
      runtime: reachable({ renderedMirrors }),
    });
    expect(effects({ ...observed, running: [pullOf(wide, 'd')] }, [stored(wide)])).toEqual(['pull a']);
  });
});

describe('decide: pins', () => {
  const images = [listed(referenceOf('etcd'), false), listed(referenceOf('api'))];
  const unpinned = referenceOf('etcd');
  const present = (over: Partial<PinsRequested>) =>
    observation({ pinsRequested: pinned(over), runtime: reachable({ images, renderedMirrors: mirrors }) });

  it('requests a pin at once when an image is not pinned, then by force after growing pauses', () => {
    expect(effects(present({}))).toEqual(['apply-pins 2']);
    const asked = { unpinned, attempts: 1, at: NOON - 999 };
    expect(effects(present(asked))).toEqual([]);
    expect(judge(present(asked), [adopted]).decision.wakeAt).toBe(NOON + 1);
    expect(effects(present({ ...asked, at: NOON - 1_000 }))).toEqual(['apply-pins 2 by force']);
    expect(judge(present({ unpinned, attempts: 3, at: NOON }), [adopted]).decision.wakeAt).toBe(NOON + 4_000);
    expect(judge(present({ unpinned, attempts: 40, at: NOON }), [adopted]).decision.wakeAt).toBe(NOON + 60_000);
    // The wall clock was set back.
    expect(effects(present({ unpinned, attempts: 1, at: NOON + 3_600_000 }))).toEqual(['apply-pins 2 by force']);
  });

  it('renders them again when the runtime has lost what was rendered', () => {
    const runtime = reachable({ images: allListed(bundle), renderedPins: [] });
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(effects(observation({ pinsRequested: pinned(), runtime }), [active])).toEqual(['apply-pins 2']);
  });

  it('pins no image that is not to be pinned', () => {
    const loose = verified({ imageOver: { etcd: { pin: false, tags: [] }, api: { tags: [] } } });
    const runtime = reachable({ images, renderedPins: [referenceOf('api')] });
    const observed = observation({ runtime, pinsRequested: pinned({ references: [referenceOf('api')] }) });
    const { first } = judge(observed, [stored(loose)]);
    expect(first).toMatchObject({ phase: 'ready', unpinnedImages: [] });
    expect(effects(observed, [stored(loose, { readyAt: 1, activatedAt: 1 })])).toEqual([]);
  });
});

describe('decide: failures', () => {
  it('waits until a failed pull may be tried again, and names the time', () => {
    const { decision } = judge(armed({ failures: [failure('etcd')] }), [adopted]);
    expect(spoken(decision.effects)).toEqual(['pull api']);
    expect(decision.wakeAt).toBe(NOON + 1_000);
    expect(effects(armed({ failures: [failure('etcd', { retryAt: NOON })] }))).toEqual(['pull etcd']);
    // The wall clock was set back: no pause is that long.
    expect(effects(armed({ failures: [failure('etcd', { retryAt: NOON + 3_600_000 })] }))).toEqual(['pull etcd']);
  });

  it('removes the mirrors when the medium has nothing more to pull, whether the release is activated or not', () => {
    const given = failure('etcd', { retryAt: undefined });
    const observed = armed({ failures: [given] }, allListed(bundle).slice(1));
    expect(effects(observed)).toEqual(['apply-mirrors']);
    expect(effects(observed, [stored(bundle, { readyAt: NOON, activatedAt: NOON })])).toEqual(['apply-mirrors']);
  });

  it('does not retry a failure before the media change when only other media can repair it', () => {
    const given = { retryAt: undefined, reason: { code: 'media/blob-damaged', message: 'blob is damaged' } };
    const failures = [failure('etcd', given), failure('api', given)];
    const { decision, first } = judge(armed({ failures }), [adopted]);
    expect(spoken(decision.effects)).toEqual(['apply-mirrors']);
    expect(decision.wakeAt).toBeUndefined();
    expect(first).toMatchObject({ phase: 'held', hold: 'media', reason: { code: 'media/blob-damaged' } });
  });

  it('tries an activation again only when it is time', () => {
    const task = { kind: 'activate', bundleId: bundle.bundleId } as const;
    const failed = (retryAt: number) => [
      { task, attempts: 1, retryAt, reason: { code: 'engine/tag-mismatch', message: 'no' } },
    ];
    const ready = stored(bundle, { readyAt: NOON });
    expect(effects(armed({ media: [], failures: failed(NOON + 1) }, allListed(bundle)), [ready])).toEqual([]);
    expect(effects(armed({ media: [], failures: failed(NOON) }, allListed(bundle)), [ready])).toEqual(['activate']);
  });
});

describe('decide: mirrors', () => {
  it('removes none during a pull, and adds those that another bundle needs', () => {
    const other = verified({ name: 'tools', images: { shell: ['shell'] } });
    const observed = armed({
      media: [medium('sdc1', [found(other)])],
      running: [pullOf(bundle, 'etcd')],
      pinsRequested: pinned({ references: pinsOf(bundle, other) }),
    });
    expect(effects(observed, [adopted, stored(other)])).toEqual(['apply-mirrors api etcd shell']);
    expect(effects({ ...observed, media: [] }, [adopted, stored(other)])).toEqual([]);
    expect(effects({ ...observed, media: [], running: [] }, [adopted, stored(other)])).toEqual(['apply-mirrors']);
  });

  it('removes mirrors that an earlier run left', () => {
    const runtime = reachable({ renderedMirrors: ['quay.example.com/old'] });
    expect(effects(observation({ runtime, pinsRequested: pinned({ references: [] }) }), [])).toEqual(['apply-mirrors']);
  });

  it('starts no second pull of a layer while the first pull runs, even if its stick is gone', () => {
    const other = verified({ name: 'tools', images: { shell: ['base'] } });
    const observed = armed({
      media: [medium('sdc1', [found(other)])],
      running: [pullOf(bundle, 'etcd')],
      pinsRequested: pinned({ references: pinsOf(bundle, other) }),
      runtime: reachable({ renderedMirrors: [...mirrors, 'quay.example.com/ocp/shell'] }),
    });
    expect(effects(observed, [adopted, stored(other)])).toEqual([]);
  });
});

describe('decide: faults of the runtime configuration', () => {
  const obstacle = { code: 'runtime/config', message: 'Rendering the mirrors failed: no config_path' };

  it('retries what the configuration of the runtime prevents, so that it works once that is repaired', () => {
    const unmirrored = armed({ obstacle, runtime: reachable() });
    expect(effects(unmirrored)).toEqual(['apply-mirrors api etcd']);
    expect(effects(armed({ obstacle }))).toEqual(['pull etcd']);
  });
});

describe('decide: space', () => {
  const tight = (freeMiB: number) =>
    reachable({
      renderedMirrors: mirrors,
      filesystem: { path: '/var', totalBytes: 1024 ** 3, freeBytes: (freeMiB + 154) * 1024 ** 2 },
    });

  it('pulls nothing that does not fit, also of a bundle that was activated', () => {
    expect(effects(armed({ runtime: tight(80) }))).toEqual(['pull etcd']);
    expect(effects(armed({ runtime: tight(70) }))).toEqual(['apply-mirrors']);
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(effects(armed({ runtime: tight(70) }), [active])).toEqual(['apply-mirrors']);
  });

  it('does not hold a bundle for the space that its running pulls are using', () => {
    const { first } = judge(armed({ runtime: tight(30), running: [pullOf(bundle, 'etcd')] }), [adopted]);
    expect(first).toMatchObject({ phase: 'preloading' });
  });

  it('starts no more pulls when the rest does not fit any more', () => {
    const wide = verified({ images: { a: ['a'], b: ['b'] } });
    const observed = observation({
      media: [medium('sdb1', [found(wide)])],
      pinsRequested: pinned({ references: pinsOf(wide) }),
      running: [pullOf(wide, 'a')],
      runtime: reachable({
        renderedMirrors: ['quay.example.com/ocp/a', 'quay.example.com/ocp/b'],
        filesystem: { path: '/var', totalBytes: 1024 ** 3, freeBytes: (20 + 154) * 1024 ** 2 },
      }),
    });
    expect(effects(observed, [stored(wide)])).toEqual([]);
  });
});

describe('decide: several bundles', () => {
  const older = verified({
    sequence: 6,
    version: '4.13.6',
    images: { etcd: ['base', 'etcd-6'] },
    imageOver: { etcd: { reference: `quay.example.com/ocp/etcd@${digestOf('etcd 6')}`, digest: digestOf('etcd 6') } },
  });
  const both = [...allListed(bundle), ...allListed(older)];
  const complete = (over: Partial<Scene> = {}) =>
    observation({
      pinsRequested: pinned({ references: pinsOf(bundle, older) }),
      runtime: reachable({ images: both, renderedMirrors: mirrors }),
      ...over,
    });

  it('adopts a bundle once that lies on two media', () => {
    const media = [medium('sdb1', [found(bundle)]), medium('sdc1', [found(bundle)])];
    const keeping = new Map([[bundle.bundleId, { done: 0, total: 0 }]]);
    const seen = observation({ media, keeping, pinsRequested: pinned({ references: [] }) });
    expect(effects(seen, [])).toEqual(['adopt-bundle']);
  });

  it('adopts only one of two unknown bundles with the same stream and sequence', () => {
    const twin = verified({ version: '4.13.7-again' });
    const { assessment } = judge(observation({ media: [medium('sdb1', [found(bundle), found(twin)])] }), []);
    expect(assessment.adoptions.map((adoption) => adoption.found.bundle.bundleId)).toEqual([bundle.bundleId]);
    expect(assessment.rejections).toMatchObject([{ name: 'ocp@4.13.7-again', reason: { code: 'bundle/sequence' } }]);
  });

  it('activates an older sequence only on request that confirms the downgrade, not automatically', () => {
    const newer = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(effects(complete(), [newer, stored(older, { readyAt: NOON })])).toEqual(['apply-mirrors']);
    const unconfirmed = stored(older, { readyAt: NOON, activationRequestedAt: NOON + 1 });
    expect(effects(complete(), [newer, unconfirmed])).toEqual(['apply-mirrors']);
    const asked: StoredBundle = { ...unconfirmed, activationOverrides: ['rule/downgrade'] };
    expect(
      effects({ ...complete(), runtime: reachable({ images: both, renderedMirrors: ['quay.example.com/ocp/etcd'] }) }, [
        newer,
        asked,
      ]),
    ).toEqual(['activate']);
  });

  it('activates an earlier release again once when that is requested', () => {
    const newer = stored(bundle, { readyAt: NOON, activatedAt: NOON + 10 });
    const again = (activatedAt: number) =>
      stored(older, { readyAt: NOON, activationRequestedAt: NOON + 20, activatedAt });
    const due = (bundles: StoredBundle[]) =>
      judge(complete(), bundles).assessment.bundles.map((entry) => entry.activationDue);
    expect(due([newer, again(NOON)])).toEqual([false, true]);
    expect(due([newer, again(NOON + 21)])).toEqual([false, false]);
  });

  it('forgets an older request once another release was activated after it', () => {
    const stale = stored(older, { readyAt: NOON, activationRequestedAt: NOON });
    const newer = stored(bundle, { readyAt: NOON, activatedAt: NOON + 10 });
    expect(judge(complete(), [stale, newer]).first?.activationDue).toBe(false);
  });

  it('reports no failure of an image that is present now', () => {
    const { first } = judge(complete({ failures: [failure('etcd')] }), [adopted]);
    expect(first?.degraded).toBeUndefined();
  });
});
