import { describe, expect, it } from 'vitest';
import { eventsBetween } from '../../../../../src/domain/report/events/events.ts';
import type { Snapshot } from '../../../../../src/domain/report/snapshot.ts';
import { mediaFaultsIn } from '../../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  referenceOf,
  refused,
  type Scene,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const bundle = verified();
const stick = medium('sdb1', [found(bundle)]);
const away = { kind: 'unreachable', reason: 'no socket' } as const;

function snapshot(over: Partial<Scene> = {}, bundles: readonly StoredBundle[] = []): Snapshot {
  const observed = observation(over);
  return { observed, memory: observed, assessment: judge(observed, bundles).assessment };
}
const told = (before: Snapshot | undefined, after: Snapshot) =>
  eventsBetween(before, after).map(({ kind, message }) => `${kind}: ${message}`);

describe('eventsBetween', () => {
  it('gives no event twice', () => {
    const media = [
      stick,
      medium('sdc1', [refused()]),
      medium('sdd1', { kind: 'failed', reason: { code: 'x', message: 'x' } }),
    ];
    const shots = [
      snapshot({ media, runtime: away }, [stored(bundle)]),
      snapshot({ media }, [stored(bundle)]),
      snapshot({ media, runtime: reachable({ filesystem: { path: '/', totalBytes: 9, freeBytes: 9 } }) }, [
        stored(bundle),
      ]),
    ];
    for (const shot of shots) expect(eventsBetween(shot, { ...shot })).toEqual([]);
  });

  it('reports the runtime at the start, and when it goes away or comes back', () => {
    expect(told(undefined, snapshot())).toEqual(['runtimeBack: The container runtime answers: cri-o 1.36.3']);
    expect(told(snapshot(), snapshot({ runtime: away }))).toEqual([
      'runtimeUnreachable: The container runtime does not answer: no socket. Preloads wait for it. stickpin continues automatically when it answers.',
    ]);
    expect(told(snapshot({ runtime: away }), snapshot({ runtime: { ...away, reason: 'other' } }))).toEqual([]);
    expect(told(snapshot({ runtime: away }), snapshot())).toHaveLength(1);
  });

  it('distinguishes a runtime that lists no images from one that does not answer', () => {
    const unlisted = snapshot({ runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' } });
    expect(told(snapshot(), unlisted)).toEqual([
      "imagesUnlisted: cri-o 1.36.3 answers, but does not list its images: database is locked. Preloads wait for it. They are read again automatically; see the runtime's own journal.",
    ]);
    expect(told(unlisted, unlisted)).toEqual([]);
    expect(told(unlisted, snapshot({ runtime: away })).map((line) => line.split(':')[0])).toEqual([
      'runtimeUnreachable',
    ]);
  });

  it('reports that the runtime is being stopped, and nothing more while it is away', () => {
    const stopping = snapshot({
      runtime: { kind: 'unreachable', reason: 'crio.service is being stopped', stoppingUnit: 'crio.service' },
    });
    expect(told(snapshot(), stopping)).toEqual([
      'runtimeStopping: crio.service is being stopped, so pulls were interrupted. They continue automatically when it runs again.',
    ]);
    expect(told(stopping, snapshot({ runtime: away }))).toEqual([]);
  });

  it('reports once that the runtime is too old', () => {
    const old = snapshot({ runtime: reachable({ name: 'containerd 1.6.20~ds1' }) });
    const kinds = (lines: readonly string[]) => lines.map((line) => line.split(':')[0]);
    expect(kinds(told(undefined, old))).toEqual(['runtimeBack', 'runtimeTooOld']);
    expect(told(old, snapshot({ runtime: reachable({ name: 'containerd 1.6.20~ds1' }) }))).toEqual([]);
    expect(kinds(told(snapshot(), old))).toEqual(['runtimeTooOld']);
    expect(told(old, snapshot())).toEqual([]);
  });

  it('reports a file that overrides pins when it appears and disappears, but not while the runtime is away', () => {
    const faulty = snapshot({ runtime: reachable({ pinFault: { code: 'runtime/config', message: '99-z.conf' } }) });
    expect(told(snapshot(), faulty)).toEqual(['pinsNotTaken: 99-z.conf']);
    expect(told(faulty, snapshot())).toEqual(['pinsHold: Nothing takes the pins of bundles away any more']);
    expect(told(faulty, snapshot({ runtime: away })).map((line) => line.split(':')[0])).toEqual(['runtimeUnreachable']);
  });

  it('does not report for each bundle that the runtime is away', () => {
    expect(
      told(
        snapshot({ media: [stick] }, [stored(bundle)]),
        snapshot({ media: [stick], runtime: away }, [stored(bundle)]),
      ),
    ).toEqual([
      'runtimeUnreachable: The container runtime does not answer: no socket. Preloads wait for it. stickpin continues automatically when it answers.',
    ]);
  });

  it('reports media once when they are read, can not be read, or are removed', () => {
    const empty = medium('sdb1', []);
    expect(told(snapshot(), snapshot({ media: [medium('sdb1', { kind: 'attached' })] }))).toEqual([]);
    expect(told(snapshot(), snapshot({ media: [stick] }))).toEqual(['mediumFound: sdb1 found, with 1 bundle on it']);
    expect(told(snapshot(), snapshot({ media: [empty] }))).toEqual([
      'mediumEmpty: sdb1 found, with no bundle (no folder stickpin/NAME with a bundle.dsse.json) on it',
    ]);
    expect(told(snapshot(), snapshot({ media: [{ ...empty, isDropFolder: true }] }))).toEqual([]);
    expect(told(snapshot({ media: [empty] }), snapshot())).toEqual(['mediumGone: sdb1 was removed']);
    const failed = medium('sdb1', { kind: 'failed', reason: { code: 'media/mount', message: 'wrong fs type' } });
    expect(told(snapshot(), snapshot({ media: [failed] }))).toEqual([
      "mediumFailed: sdb1 can't be read: wrong fs type",
    ]);
    const tried = medium('sdb1', { kind: 'mounted' });
    const again = (message: string, mediaFaults = mediaFaultsIn([tried], mediaFaultsIn([failed], new Map()))) =>
      told(
        snapshot({ media: [tried] }),
        snapshot({
          media: [medium('sdb1', { kind: 'failed', reason: { code: 'media/mount', message } })],
          mediaFaults,
        }),
      );
    expect(again('wrong fs type')).toEqual([]);
    expect(again('an I/O error')).toEqual(["mediumFailed: sdb1 can't be read: an I/O error"]);
    for (const forgotten of [[stick], [medium('sdb1', { kind: 'unmounted' })], []])
      expect(again('wrong fs type', mediaFaultsIn(forgotten, mediaFaultsIn([failed], new Map())))).toHaveLength(1);
    const unmounted = snapshot({ media: [medium('sdb1', { kind: 'unmounted' })] });
    expect(told(snapshot({ media: [stick] }), unmounted)).toEqual([
      "mediumUnmounted: sdb1 was unmounted; plug it in again or run 'stickpin rescan'",
    ]);
    expect(told(unmounted, unmounted)).toEqual([]);
  });

  it('reports a rejection once for each medium, path and reason', () => {
    const with_ = (...messages: readonly string[]) =>
      snapshot({
        media: [
          medium(
            'sdb1',
            messages.map((message) => refused(message)),
          ),
        ],
      });
    const before = with_('bad signature');
    expect(told(before, with_('bad signature', 'no key'))).toContain(
      'bundleRejected: Rejected stickpin/ocp-4.13.7-amd64 on sdb1: no key',
    );
    expect(told(before, with_('bad signature'))).toEqual(['mediumFound: sdb1 found, with 1 bundle on it']);
  });

  it('reports when a preload starts, is held, and continues', () => {
    const none = snapshot({ media: [stick] });
    const preloading = snapshot({ media: [stick] }, [stored(bundle)]);
    const gone = snapshot({ media: [] }, [stored(bundle)]);
    expect(told(none, preloading)).toEqual([
      'preloadStarted: Preloading ocp 4.13.7 from sdb1: 2 of 2 images to pull, 30 MiB in all',
    ]);
    expect(told(preloading, gone)).toEqual([
      'mediumGone: sdb1 was removed',
      'preloadPaused: Stick removed while preloading ocp 4.13.7 (0/2 images). Plug it in again to continue',
    ]);
    expect(told(gone, preloading).map((line) => line.split(':')[0])).toEqual(['mediumFound', 'preloadStarted']);
  });

  it('says what to do when the stick is removed while transfers wait for it', () => {
    const running = [pullOf(bundle, 'etcd')];
    const before = snapshot({ media: [stick], running }, [stored(bundle)]);
    expect(told(before, snapshot({ running }, [stored(bundle)]))).toEqual([
      'mediumGone: sdb1 was removed while preloading ocp 4.13.7 (0/2 images). Plug it in again to continue',
    ]);
  });

  it('reports a failure once, and not again when it holds its bundle', () => {
    const task = pullOf(bundle, 'etcd');
    const failure = (at: string) => ({
      task,
      attempts: 1,
      retryAt: undefined,
      reason: { code: 'media/blob-damaged', message: at },
    });
    const before = snapshot({ media: [stick], running: [task] }, [stored(bundle)]);
    const failures = ['etcd', 'api'].map((name) => ({
      ...failure('Blob sha256:1 is damaged.'),
      task: pullOf(bundle, name),
    }));
    expect(told(before, snapshot({ media: [stick], failures }, [stored(bundle)]))).toEqual([]);
  });

  it('gives no event for a fault of the runtime configuration, which the failed effect reports', () => {
    const obstacle = { code: 'runtime/config', message: 'no config_path' };
    const before = snapshot({ media: [stick] }, [stored(bundle)]);
    expect(told(before, snapshot({ media: [stick], obstacle }, [stored(bundle)]))).toEqual([]);
  });

  it('gives no event for the progress of one image', () => {
    const at = (...names: readonly string[]) =>
      snapshot(
        {
          media: [stick],
          runtime: reachable({ images: names.map((name) => listed(referenceOf(name))) }),
          running: [pullOf(bundle, 'api')],
        },
        [stored(bundle)],
      );
    expect(told(at(), at('etcd'))).toEqual([]);
  });

  it('reports that a wiped release is complete again, but not when it is complete for the first time', () => {
    const wiped = (entry: StoredBundle) => snapshot({ media: [stick] }, [entry]);
    const whole = (entry: StoredBundle) =>
      snapshot({ media: [stick], runtime: reachable({ images: allListed(bundle) }) }, [entry]);
    const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    expect(told(wiped(active), whole(active))).toEqual([
      'bundleReady: ocp 4.13.7 is complete again: 2 images present and pinned',
    ]);
    expect(told(wiped(stored(bundle)), whole(stored(bundle)))).toEqual([]);
    expect(
      told(snapshot({ runtime: away }, [active]), whole(active)).filter((line) => line.startsWith('bundle')),
    ).toEqual([]);
  });

  it('reports only new bundles after the first round', () => {
    expect(told(undefined, snapshot({ media: [stick] }, [stored(bundle)])).map((line) => line.split(':')[0])).toEqual([
      'runtimeBack',
      'mediumFound',
    ]);
  });
});
