import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifiedBundle } from '../../../../../src/domain/model/bundle.ts';
import type { Medium } from '../../../../../src/domain/model/medium.ts';
import type { Progress } from '../../../../../src/domain/report/status/media-line.ts';
import { statusLine } from '../../../../../src/domain/report/status/status-line.ts';
import type { Policy } from '../../../../../src/domain/settings/settings.ts';
import type { TaskFailure } from '../../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  type BundleSpec,
  digestOf,
  found,
  GIB,
  judge,
  listed,
  MIB,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  referenceOf,
  refused,
  type Scene,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const many = Object.fromEntries(Array.from({ length: 112 }, (_, index) => [`image-${index}`, [`layer-${index}`]]));
const bundle = verified({ images: many });
const manual = verified({ images: many, schedule: 'manual' });
const adopted = stored(bundle);
const ready = stored(bundle, { readyAt: NOON });
const active = stored(bundle, { readyAt: NOON, activatedAt: NOON });
const stick = medium('sdb1', [found(bundle)]);
const some = Object.keys(many)
  .slice(0, 37)
  .map((name) => listed(referenceOf(name)));
const complete = reachable({ images: allListed(bundle) });
const moving: Progress = {
  doneBytes: 5.1 * GIB,
  totalBytes: 16 * GIB,
  bytesPerSecond: 84 * MIB,
  waitingTransfers: 0,
};
const still: Progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };

function line(over: Partial<Scene>, bundles: readonly StoredBundle[] = [], progress: Progress = still): string {
  const observed = observation(over);
  return statusLine({ observed, memory: observed, assessment: judge(observed, bundles).assessment }, progress);
}

const preloading = { media: [stick], runtime: reachable({ images: some }), running: [pullOf(bundle, 'image-99')] };

const SCENES: readonly [when: string, over: Partial<Scene>, bundles?: StoredBundle[], progress?: Progress][] = [
  ['nothing was ever plugged in', {}],
  ['a release is activated and no stick is in', { runtime: complete }, [active]],
  ['a stick was found', { media: [medium('sdb1', { kind: 'attached' })] }],
  ['it carries a good bundle', { media: [stick] }],
  ['its manifests are being kept', { media: [stick], keeping: new Map([[bundle.bundleId, { done: 37, total: 224 }]]) }],
  ['it is being preloaded', preloading, [adopted], moving],
  ['the preload has just begun', { media: [stick] }, [adopted], { ...still, totalBytes: 16 * GIB }],
  [
    'all is read and the last image is being stored: no rate, which would only sink',
    preloading,
    [adopted],
    { ...moving, doneBytes: 16 * GIB },
  ],
  ['nothing is transferred since the runtime unpacks', preloading, [adopted], { ...moving, isUnpacking: true }],
  [
    'images were pulled since the runtime was looked at',
    preloading,
    [adopted],
    { ...moving, landedImages: [referenceOf('image-0'), referenceOf('image-50'), referenceOf('image-51')] },
  ],
  [
    'one of its two sticks was pulled, and a transfer waits for it',
    {
      media: [
        medium('sdc1', [
          found(
            bundle,
            bundle.contents.layers.slice(90).map(({ digest }) => ({ digest, why: 'absent' as const })),
          ),
        ]),
      ],
      runtime: reachable({ images: some }),
      running: [pullOf(bundle, 'image-99')],
    },
    [adopted],
    { ...moving, waitingTransfers: 1 },
  ],
  ['it is all but done', preloading, [adopted], { ...moving, doneBytes: 16 * GIB - MIB }],
  ['it hardly moves: no nonsense about the time left', preloading, [adopted], { ...moving, bytesPerSecond: 100 }],
  [
    'the stick was pulled and its transfer is held',
    { runtime: reachable({ images: some }), running: [pullOf(bundle, 'image-99')] },
    [adopted],
    { ...moving, waitingTransfers: 1 },
  ],
  ['the stick was pulled and nothing runs any more', { runtime: reachable({ images: some }) }, [adopted]],
  [
    'the stick was unmounted by hand during a preload',
    {
      media: [medium('sdb1', { kind: 'unmounted' })],
      lastCarriers: new Map([[bundle.bundleId, { mediumId: '7-sdb1', label: 'sdb1', isDropFolder: false, seenMs: 0 }]]),
      runtime: reachable({ images: some }),
    },
    [adopted],
  ],
  [
    'the stick was unmounted by hand when all was done',
    { media: [medium('sdb1', { kind: 'unmounted' })], runtime: complete },
    [active],
  ],
  [
    'a bundle was taken out of the drop folder, and its transfer is held',
    {
      media: [{ ...medium('/var/lib/stickpin/incoming', []), isDropFolder: true }],
      lastCarriers: new Map([
        [bundle.bundleId, { mediumId: 'dir:i', label: '/var/lib/stickpin/incoming', isDropFolder: true, seenMs: 0 }],
      ]),
      runtime: reachable({ images: some }),
      running: [pullOf(bundle, 'image-99')],
    },
    [adopted],
    { ...moving, waitingTransfers: 1 },
  ],
  [
    'something else was copied into the drop folder in mid-preload, and it is read again',
    {
      media: [{ ...medium('/var/lib/stickpin/incoming', { kind: 'mounted' }), isDropFolder: true }],
      lastCarriers: new Map([
        [
          bundle.bundleId,
          {
            mediumId: '7-/var/lib/stickpin/incoming',
            label: '/var/lib/stickpin/incoming',
            isDropFolder: true,
            seenMs: 0,
          },
        ],
      ]),
      runtime: reachable({ images: some }),
    },
    [adopted],
  ],
  [
    'a folder was taken away and nothing runs any more',
    {
      lastCarriers: new Map([
        [bundle.bundleId, { mediumId: 'load:/mnt/a', label: '/mnt/a', isDropFolder: false, seenMs: 0 }],
      ]),
      runtime: reachable({ images: some }),
    },
    [adopted],
  ],
  [
    'the stick is in but can not be read on',
    preloading,
    [adopted],
    { ...moving, waitingTransfers: 1, isStalled: true },
  ],
  ['the bundle is not trusted', { media: [medium('sdb1', [refused('signature by unknown key 5f0c')])] }],
  [
    'two bundles are rejected, one by the adoption rules',
    { media: [medium('sdb1', [refused(), found(verified({ arch: 'arm64' }))])] },
  ],
  [
    'there is no room',
    {
      media: [stick],
      runtime: reachable({
        filesystem: { path: '/var/lib/containers', totalBytes: 40.6 * GIB, freeBytes: 7 * GIB },
      }),
    },
    [adopted],
  ],
  ['a manual release is ready', { runtime: complete }, [stored(manual, { readyAt: NOON })]],
  [
    'a manual release is ready and its stick is still in',
    { media: [medium('sdb1', [found(manual)])], runtime: complete },
    [stored(manual, { readyAt: NOON })],
  ],
  ['it is ready and activated by itself next', { runtime: complete }, [ready]],
  [
    'a lost tag is given to its image again',
    { runtime: complete, running: [{ kind: 'restore-tags', bundleId: bundle.bundleId, tags: [] }] },
    [active],
  ],
  ['it is being activated', { runtime: complete, running: [{ kind: 'activate', bundleId: bundle.bundleId }] }, [ready]],
  ['it is activated and the stick is still in', { media: [stick], runtime: complete }, [active]],
  [
    'the runtime is away and a bundle waits for it',
    { media: [stick], runtime: { kind: 'unreachable', reason: 'connect ENOENT /run/crio/crio.sock' } },
    [adopted],
  ],
  [
    'no runtime was found',
    {
      runtime: {
        kind: 'unreachable',
        reason:
          'none of CRI-O, containerd, Docker and Podman was found at its usual socket (runtime.socket can name another)',
        isAbsent: true,
      },
    },
  ],
  [
    'the runtime answers and lists no images',
    { media: [stick], runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' } },
    [adopted],
  ],
  [
    'the storage of the runtime is damaged',
    {
      media: [stick],
      runtime: { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'layer not known', isStorageDamaged: true },
    },
    [adopted],
  ],
  [
    'the runtime is being stopped and a bundle waits for it',
    {
      media: [stick],
      runtime: { kind: 'unreachable', reason: 'crio.service is being stopped', stoppingUnit: 'crio.service' },
    },
    [adopted],
  ],
  ['the runtime is too old, before the first stick', { runtime: reachable({ name: 'containerd 1.6.20~ds1' }) }],
  ['the stick is empty', { media: [medium('sdb1', [])] }],
  [
    'the drop folder is empty, as it mostly is',
    { media: [{ ...medium('/var/lib/stickpin/incoming', []), isDropFolder: true }] },
  ],
  [
    'the stick can not be read',
    { media: [medium('sdb1', { kind: 'failed', reason: { code: 'media/mount', message: 'wrong fs type' } })] },
  ],
  [
    'the images of an activated release were wiped and no stick is in',
    { runtime: reachable({ images: some }) },
    [active],
  ],
  [
    'something could not be done',
    {
      media: [stick],
      obstacle: { code: 'runtime/config', message: 'Rendering the pins failed: /etc/crio/crio.conf is broken' },
    },
    [adopted],
  ],
  [
    'nothing can be recorded',
    { obstacle: { code: 'store/no-space', message: '/var/lib/stickpin is full. Make room on it' } },
  ],
  [
    'a bundle waits for that',
    {
      media: [stick],
      obstacle: { code: 'store/read-only', message: '/var/lib/stickpin is read-only. Remount it' },
    },
  ],
  [
    'a bundle waits for a restart, since the state database is damaged',
    { media: [stick], obstacle: { code: 'store/damaged', message: 'state.db is damaged. Restart stickpin' } },
  ],
];

it('statusLine reads as in golden/status-lines.txt', async () => {
  const lines = SCENES.map(([when, over, bundles, progress]) => `${when}:\n  ${line(over, bundles, progress)}\n`);
  expect(lines.filter((text) => (text.split('\n')[1] ?? '').length > 202)).toEqual([]);
  await expect(lines.join('\n')).toMatchFileSnapshot('../golden/status-lines.txt');
});

describe('statusLine: a stick that was pulled since the last round', () => {
  it('is reported as removed, not as a medium that delivers nothing', () => {
    const seen = observation({
      media: [stick],
      runtime: reachable({ images: some }),
      running: [pullOf(bundle, 'image-99')],
    });
    const { assessment } = judge(seen, [adopted]);
    const now = { ...seen, media: [] };
    for (const waitingTransfers of [0, 1]) {
      expect(statusLine({ observed: now, memory: now, assessment }, { ...moving, waitingTransfers })).toBe(
        'PLUG IN THE STICK AGAIN (M-10): Stick removed while preloading ocp 4.13.7 (37/112 images).',
      );
    }
  });
});

describe('statusLine: the daemon has just started', () => {
  it('reports no medium as removed before the media were checked', () => {
    const lost = { areMediaUnread: true, runtime: reachable({ images: some }) };
    expect(line(lost, [adopted])).toBe(
      'WAIT (M-21): stickpin has just started and checks whether ocp 4.13.7 is plugged in. 37/112 images are present.',
    );
    expect(line(lost, [active])).toMatch(/ are missing\. stickpin has just started and reads the media\. /);
    expect(line({ ...lost, media: [medium('sdb1', { kind: 'attached' })] }, [adopted])).toBe(
      'LEAVE THE STICK IN: Reading the stick.',
    );
  });
});

describe('statusLine: what comes first', () => {
  const older = verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } });
  const foreign = found(verified({ arch: 'arm64', version: '4.13.7-arm' }));
  const broken = medium('sdb2', { kind: 'failed', reason: { code: 'media/mount', message: 'wrong fs type' } });

  it('says that the release is ready, and only notes that another bundle on the stick was rejected', () => {
    expect(line({ media: [medium('sdb1', [foreign, found(bundle)])], runtime: complete }, [active])).toBe(
      'DONE: ocp 4.13.7 is installed. Remove the stick. It is activated: 112 images present and pinned. 1 other bundle on the stick was rejected.',
    );
  });

  it('says of a stick without a filesystem what to do with it, after a release that is there', () => {
    const message =
      "has no filesystem that stickpin can read. Write it again with 'stickpin bundle write', or format it as vfat or exfat and copy the bundle to it";
    const blank = medium('sdb', { kind: 'failed', reason: { code: 'media/filesystem', message: `it ${message}` } });
    expect(line({ media: [blank], runtime: complete }, [active])).toBe(
      `PLUG IN ANOTHER STICK (M-02): Cannot read the stick: it ${message}.`,
    );
    expect(line({ media: [blank] }, [])).toBe(`PLUG IN ANOTHER STICK (M-02): Cannot read the stick: it ${message}.`);
  });

  it('says that the release is ready, and only notes that another partition can not be read', () => {
    expect(line({ media: [stick, broken], runtime: complete }, [active])).toBe(
      'DONE: ocp 4.13.7 is installed. Remove the stick. sdb2 cannot be read. It is activated: 112 images present and pinned.',
    );
  });

  it('names the sticks that may be removed where there are several, and no partition of one', () => {
    const lineOf = (...others: readonly Medium[]) =>
      line({ media: [...others, stick], runtime: complete }, [active]).replace(/ It is activated.*?pinned\./, '');
    const other = medium('sdc1', [found(bundle)]);
    expect(lineOf(other)).toBe('DONE: ocp 4.13.7 is installed. Remove sdc1 and sdb1.');
    expect(lineOf(medium('sdb2', [found(bundle)]))).toBe('DONE: ocp 4.13.7 is installed. Remove the stick.');
    expect(lineOf(medium('/srv/usb', [found(bundle)]))).toBe('DONE: ocp 4.13.7 is installed. Remove the stick.');
    expect(lineOf(medium('sdc1', []))).toBe(
      'DONE: ocp 4.13.7 is installed. Remove sdc1 and sdb1. sdc1 carries no bundle.',
    );
    expect(lineOf(medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: 'bad' } }))).toBe(
      'DONE: ocp 4.13.7 is installed. Remove sdb1. sdc1 cannot be read.',
    );
    const media = [medium('sdc1', []), medium('sdb1', [found(manual)])];
    expect(line({ media, runtime: complete }, [stored(manual, { readyAt: NOON })])).toMatch(
      /^DONE: .*pinned\. Remove sdc1 and sdb1\. An administrator activates it\. /,
    );
  });

  it('is about the stick that was plugged in last', () => {
    const rejected = medium('sdc1', [refused()]);
    expect(line({ media: [stick, rejected], runtime: complete }, [active])).toMatch(/: Rejected bundle on sdc1/);
    expect(line({ media: [rejected, stick], runtime: complete }, [active])).toMatch(
      /DONE: ocp 4\.13\.7 is installed.* 1 bundle on sdc1 was rejected\.$/,
    );
  });

  it('says what a held bundle waits for, also beside a rejected one', () => {
    const full = { path: '/var', totalBytes: 10 * GIB, freeBytes: 1 * GIB };
    const media = [medium('sdb1', [foreign, found(bundle)])];
    expect(line({ media, runtime: reachable({ filesystem: full }) }, [adopted])).toMatch(
      /: Not enough space for ocp 4\.13\.7.* Free space there\./,
    );
  });

  it('reports the runtime before everything that waits for it', () => {
    const runtime = { kind: 'unreachable', reason: 'no socket' } as const;
    expect(line({ media: [medium('sdb1', [refused()])], runtime }, [adopted])).toMatch(/: The container runtime does/);
  });

  it('calls nobody for a release that waits for a runtime which is away for a moment', () => {
    const runtime = { kind: 'unreachable', reason: 'no socket', isBrief: true } as const;
    expect(line({ media: [stick], runtime }, [adopted])).toMatch(
      /^LEAVE THE STICK IN \(R-02\): The container runtime does not answer: no socket\. .*ocp 4\.13\.7 waits for it\.$/,
    );
    expect(line({ runtime }, [adopted])).toMatch(/^WAIT \(R-02\): The container runtime does not answer/);
  });

  it('does not hide a ready release behind an older one that lost its images', () => {
    const lost = stored(older, { readyAt: NOON, activatedAt: NOON - 1 });
    expect(line({ media: [stick], runtime: complete }, [lost, active])).toBe(
      "DONE: ocp 4.13.7 is installed. Remove the stick. It is activated: 112 images present and pinned. ocp 4.13.6 needs attention. See 'stickpin list'.",
    );
    expect(line({ runtime: complete }, [lost, active])).toMatch(/: 1 of 1 images of ocp 4\.13\.6 is missing/);
  });

  it('calls for the stick of another stream whose release in force lost its images', () => {
    const tools = verified({ name: 'tools', version: '1.0.0', images: { kubectl: ['kubectl'] } });
    const lost = stored(tools, { readyAt: NOON, activatedAt: NOON - 1, provenAt: NOON - 1 });
    expect(line({ media: [stick], runtime: complete }, [lost, active])).toMatch(
      /^REMOVE THE STICK: ocp 4\.13\.7 is installed\. Then plug in the stick of tools 1\.0\.0 \(M-16\)\. /,
    );
    expect(line({ runtime: complete }, [lost, active])).toMatch(/^PLUG IN THE STICK \(M-16\): 1 of 1 images of tools/);
  });

  it('says of an older release on the stick that it is not needed', () => {
    const before = stored(bundle, { readyAt: NOON - 3, activatedAt: NOON - 2 });
    const later = verified({ version: '4.13.8', sequence: 8, images: { 'etcd-8': ['etcd-8'] } });
    const now = stored(later, { readyAt: NOON - 1, activatedAt: NOON - 1 });
    expect(
      line({ media: [stick], runtime: reachable({ images: [...allListed(bundle), ...allListed(later)] }) }, [
        before,
        now,
      ]),
    ).toMatch(/^DONE: ocp 4\.13\.7 is not needed: ocp 4\.13\.8 is installed\. Remove the stick\./);
  });

  it('shows the bundle whose pull runs, not one before it in the list', () => {
    const held = stored(older);
    const over = preloading;
    expect(line(over, [held, adopted], moving)).toMatch(/: Preloading ocp 4\.13\.7 from the stick: 37\/112/);
  });

  it('reports a failure of a preload once for all images', () => {
    const failure: TaskFailure = {
      task: pullOf(bundle, 'image-99'),
      attempts: 2,
      reason: { code: 'runtime/pull-failed', message: 'connection reset' },
      retryAt: NOON + 1,
    };
    const over = { media: [stick], runtime: reachable({ images: some }), failures: [failure] };
    expect(line(over, [adopted], moving)).toMatch(
      /: Preloading .* left\. Problem: The runtime could not pull an image\. Connection reset\.$/,
    );
    expect(line(over, [adopted], { ...moving, waitingTransfers: 1, isStalled: true })).toMatch(
      /: Preloading .* has stalled at 37\/112 images: the stick does not deliver\. Problem: The runtime could not pull an image\. /,
    );
    const stalled = { ...failure, reason: { code: 'engine/stalled' as const, message: 'the pull has stalled' } };
    expect(line({ ...over, failures: [stalled] }, [adopted], moving)).toMatch(
      /^LEAVE THE STICK IN: Preloading .* Problem: The stick delivers nothing, or a pull makes no progress\.$/,
    );
    const message =
      'Blob sha256:12ab of etcd is damaged on sdb1. Copy ocp 4.13.7 to the stick again, or plug in another one';
    const damaged = { ...failure, reason: { code: 'media/blob-damaged' as const, message } };
    expect(line({ ...over, failures: [damaged] }, [adopted], moving)).toMatch(
      /^LEAVE THE STICK IN \(M-19\): Preloading .* Problem: A file on the stick has wrong bytes\.$/,
    );
  });

  it('says at once that a file is missing or cut short, while the others are loaded', () => {
    const lacks = (why: 'absent' | 'truncated') =>
      medium('sdb1', [found(bundle, [{ digest: digestOf('layer-99'), why }])]);
    expect(line({ media: [lacks('absent')] })).toMatch(
      /: ocp 4\.13\.7 on the stick: .*, only 335 of 336 blobs found\./,
    );
    const over = { runtime: reachable({ images: some }) };
    expect(line({ ...over, media: [lacks('absent')] }, [adopted], still)).toMatch(
      /^LEAVE THE STICK IN \(B-07\): Preloading .* Not all of it is on the stick: plug in the stick that carries the rest, now or later\.$/,
    );
    expect(line({ ...over, media: [lacks('truncated')] }, [adopted], still)).toMatch(
      /^LEAVE THE STICK IN \(B-07\): Preloading .* A file on the stick is damaged: plug in another copy of it, now or later\.$/,
    );
    expect(line({ ...over, media: [lacks('absent'), medium('sdc1', [found(bundle)])] }, [adopted], still)).toMatch(
      /^LEAVE THE STICK IN: Preloading /,
    );
  });

  it.each([
    ['engine/not-listed', 'R-25', 'was pulled, and is listed in the next round'],
    ['runtime/unreachable', 'R-02', 'is pulled again, since the runtime was restarted meanwhile'],
  ])('calls nobody for an image that fails once with %s (%s): it %s', (code, short) => {
    const failuresAfter = (attempts: number): TaskFailure[] =>
      Object.keys(many).map((name) => {
        return { task: pullOf(bundle, name), attempts, reason: { code, message: 'why' }, retryAt: NOON + 1 };
      });
    const over = { media: [stick], runtime: reachable({ images: some }) };
    expect(line({ ...over, failures: failuresAfter(1) }, [adopted], moving)).toMatch(/^LEAVE THE STICK IN: /);
    expect(line({ ...over, failures: failuresAfter(1) }, [adopted], moving)).not.toContain('Problem');
    expect(line({ ...over, failures: failuresAfter(2) }, [adopted], moving)).toMatch(
      new RegExp(` \\(${short}\\): .* Problem: `),
    );
  });

  it('calls support, also while it tries again, once only a person can help each image that is not there', () => {
    const refusal = (name: string): TaskFailure => ({
      task: pullOf(bundle, name),
      attempts: 2,
      reason: { code: 'runtime/policy', message: 'Source image rejected' },
      retryAt: NOON + 1,
    });
    const all = Object.keys(many).map(refusal);
    const over = { media: [stick], runtime: reachable({ images: some }) };
    expect(line({ ...over, failures: all.slice(0, -1) }, [adopted], still)).toMatch(/^LEAVE THE STICK IN \(R-11\): /);
    expect(line({ ...over, failures: all }, [adopted], still)).toMatch(/^CALL SUPPORT \(R-11\): Preloading /);
    const running = [pullOf(bundle, 'image-99')];
    expect(line({ ...over, failures: all, running }, [adopted], still)).toMatch(/^CALL SUPPORT \(R-11\): Preloading /);
    // The stick brings nothing, so that nobody is asked for it again.
    expect(line({ ...over, media: [], failures: all, running }, [adopted], still)).toMatch(/^CALL SUPPORT \(R-11\): /);
  });
});

describe('statusLine: a release that was rolled back', () => {
  const of = (sequence: number, over: Partial<BundleSpec> = {}) =>
    verified({
      sequence,
      version: `4.13.${sequence}`,
      images: { [`etcd-${sequence}`]: [`etcd-${sequence}`] },
      ...over,
    });
  const [good, newer, tools] = [of(6), of(8), of(9, { name: 'tools' })];
  const back = stored(of(7), {
    readyAt: NOON,
    activatedAt: NOON - 2,
    rolledBackAt: NOON - 1,
    rolledBackReason: 'ocp 4.13.7 was rolled back: ocp 4.13.6 runs again',
  });
  const runsAgain = stored(good, { readyAt: 1, activatedAt: NOON, provenAt: 2 });
  const there = (...all: readonly VerifiedBundle[]) => reachable({ images: all.flatMap((one) => allListed(one)) });
  const runtime = there(good, back, newer, tools);

  it('is shown while it is the newest', () => {
    expect(line({ runtime }, [runsAgain, back])).toBe(
      "CALL SUPPORT (A-20): ocp 4.13.7 was rolled back: ocp 4.13.6 runs again. It is not activated again automatically. 'stickpin activate ocp@4.13.7' tries it once more.",
    );
    const media = [medium('sdb1', [found(good), found(back)])];
    expect(line({ runtime, media }, [runsAgain, back])).toBe(
      "CALL SUPPORT (A-20): ocp 4.13.7 was rolled back: ocp 4.13.6 runs again. It is not activated again automatically. 'stickpin activate ocp@4.13.7' tries it once more.",
    );
  });

  it.each([
    { adopted: 'after it', order: (newer: StoredBundle) => [runsAgain, back, newer] },
    { adopted: 'before it', order: (newer: StoredBundle) => [runsAgain, newer, back] },
  ])('hides no newer one of its stream that was adopted $adopted', ({ order }) => {
    const ready = order(stored(newer, { readyAt: NOON }));
    const media = [medium('sdb1', [found(good), found(back), found(newer)])];
    const says = 'ocp 4.13.8 is loaded: 1 image present and pinned.';
    expect(line({ runtime, media }, ready)).toMatch(says);
    expect(line({ runtime }, ready)).toMatch(says);
    const proven = order(stored(newer, { readyAt: 1, activatedAt: NOON - 3, provenAt: NOON - 3 }));
    expect(
      line(
        { runtime },
        [...proven].filter((one) => one !== runsAgain),
      ),
    ).toBe('IDLE: ocp 4.13.8 proven (1 image pinned). Waiting for a stick.');
  });

  it('hides no other fault, of itself or of an older release', () => {
    const manual = stored(newer, { readyAt: NOON });
    expect(line({ runtime: there(good, newer) }, [runsAgain, back, manual])).toMatch(
      /: 1 of 1 images of ocp 4\.13\.7 is missing/,
    );
    expect(line({ runtime: there(back, newer) }, [runsAgain, back, manual])).toMatch(
      /: 1 of 1 images of ocp 4\.13\.6 is missing/,
    );
  });

  it('is not hidden by one of another stream, by one that is retired, or by one that is not on its stick', () => {
    const other = stored(tools, { readyAt: NOON });
    const retired = stored(newer, { readyAt: 1, retiredAt: NOON });
    for (const bundles of [
      [back, other],
      [back, retired],
    ]) {
      const media = [
        medium(
          'sdb1',
          bundles.map((one) => found(one)),
        ),
      ];
      expect(line({ runtime }, bundles)).toMatch(/: ocp 4\.13\.7 was rolled back/);
      expect(line({ runtime, media }, bundles)).toMatch(/: ocp 4\.13\.7 was rolled back/);
    }
    const alone = [medium('sdb1', [found(back)])];
    expect(line({ runtime, media: alone }, [back, stored(newer, { readyAt: NOON })])).toMatch(
      /: ocp 4\.13\.7 was rolled back/,
    );
  });
});

describe('statusLine: several releases', () => {
  const of = (sequence: number, over: Partial<BundleSpec> = {}) =>
    verified({
      sequence,
      version: `4.13.${sequence}`,
      images: { [`etcd-${sequence}`]: [`etcd-${sequence}`] },
      ...over,
    });
  const there = (...all: readonly VerifiedBundle[]) => reachable({ images: all.flatMap((one) => allListed(one)) });
  const [older, newer, tools] = [of(7), of(8), of(9, { name: 'tools', update: { endOfLife: '2026-01-01' } })];
  const activated = stored(newer, { readyAt: 1, activatedAt: 2 });

  it('says nothing of one that was passed over while the newer one is not proven yet', () => {
    const ready = stored(older, { readyAt: 1 });
    const says = 'IDLE: ocp 4.13.8 activated (1 image present and pinned). Waiting for a stick.';
    expect(line({ runtime: there(older, newer) }, [ready, activated])).toBe(says);
    expect(line({ runtime: there(older, newer) }, [activated, ready])).toBe(says);
    expect(line({ runtime: there(newer) }, [activated, stored(older)])).toBe(says);
    const media = [medium('sdb1', [found(newer), found(older)])];
    expect(line({ runtime: there(older, newer), media }, [activated, ready])).toMatch(
      /DONE: ocp 4\.13\.8 is installed.* activated/,
    );
    const alone = [medium('sdb1', [found(older)])];
    expect(line({ runtime: there(older, newer), media: alone }, [activated, ready])).toMatch(/: ocp 4\.13\.7 is/);
    const back = { rolledBackAt: 3, rolledBackReason: 'ocp 4.13.8 was rolled back.' };
    expect(line({ runtime: there(older, newer) }, [ready, { ...activated, ...back }])).not.toBe(says);
  });

  it('speaks of the one that needs a person, not of one that ends by itself', () => {
    const old = stored(tools, { readyAt: 1 });
    const soon = stored(older, { readyAt: 1 });
    const unpinned = stored(newer);
    const pinning = reachable({
      images: [
        ...allListed(tools),
        ...newer.contents.images.map(({ reference }) => listed(reference, false)),
        ...allListed(older),
      ],
    });
    for (const bundles of [
      [old, soon, unpinned],
      [unpinned, soon, old],
    ]) {
      const pinsRequested = { references: [], unpinned: '', attempts: 1, at: NOON };
      expect(line({ runtime: pinning, pinsRequested }, bundles)).toMatch(
        /: tools 4\.13\.9 is loaded, not activated: its end of life was/,
      );
      const media = [medium('sdb1', [found(tools), found(older)])];
      expect(line({ runtime: there(older, tools), media }, [old, soon])).toMatch(/: tools 4\.13\.9 is loaded/);
    }
  });

  const full = { path: '/var', totalBytes: 10 * GIB, freeBytes: 1 * GIB };
  it.each<{ state: string; bad: ReturnType<typeof medium>; says: string }>([
    { state: 'is empty', bad: medium('sdc1', []), says: 'sdc1 carries no bundle.' },
    {
      state: 'can not be read',
      bad: medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: 'wrong fs type' } }),
      says: 'sdc1 cannot be read.',
    },
  ])('names a stick that $state, whatever is held or done', ({ bad, says }) => {
    const held = stored(bundle);
    const images = reachable({ images: some, filesystem: full });
    for (const over of [
      { runtime: images, media: [stick, bad] },
      { runtime: images, media: [bad] },
      { runtime: reachable({ images: some }), media: [stick, bad], running: [pullOf(bundle, 'image-99')] },
      { runtime: { kind: 'unreachable' as const, reason: 'x '.repeat(120) }, media: [bad] },
    ]) {
      const text = line(over, [held]);
      expect(text).toContain(over.media.length === 1 ? says.replace('sdc1', 'The stick') : says);
      expect(text).not.toMatch(/^sdc1/);
      expect(text.length).toBeLessThanOrEqual(200);
    }
  });
});

describe('statusLine: a release that can not be completed from the seen media', () => {
  const good = verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } });
  const proven = stored(good, { readyAt: 1, activatedAt: 2, provenAt: 3 });
  const bad = { digest: digestOf('layer image-50'), why: 'damaged', medium: 'sdb1' } as const;
  const broken = stored(bundle, { badBlobs: [bad] });
  const images = [...allListed(good), ...some];
  const ask = "ocp 4.13.7 needs an undamaged copy. See 'stickpin list'.";

  it.each<[what: string, bundles: StoredBundle[], reads: string | RegExp, over?: Partial<Scene>]>([
    [
      'a proven release',
      [proven, broken],
      `PLUG IN ANOTHER STICK (M-12): ${ask} ocp 4.13.6 proven (1 image pinned). Waiting for a stick.`,
    ],
    [
      'a release that waits to be activated',
      [stored(good, { readyAt: 1 }), broken],
      `PLUG IN ANOTHER STICK (M-12): ${ask} ocp 4.13.6 is loaded: 1 image present and pinned. Activating next.`,
    ],
    [
      'what is wrong with another one',
      [proven, broken],
      /: 1 of 1 images of ocp 4\.13\.6 is missing/,
      { runtime: reachable({ images: some }) },
    ],
    [
      'a medium that can not be read',
      [broken],
      'PLUG IN ANOTHER STICK (M-03): Cannot read the stick: wrong fs type.',
      { media: [medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: 'wrong fs type' } })] },
    ],
    [
      'layers that are copied for another one',
      [proven, broken],
      'LEAVE THE STICK IN: Copying layers of ocp 4.13.6 from the stick to this node, 5 MiB left.',
      { copyingBytes: 5 * MIB, media: [medium('sdc1', [found(good)])] },
    ],
    [
      'the bundle that waits for the runtime',
      [broken, stored(verified({ sequence: 8, version: '4.13.8', images: { new: ['new'] } }))],
      /ocp 4\.13\.8 waits for it/,
      { runtime: { kind: 'unreachable', reason: 'no socket' } },
    ],
    [
      'nothing, where there is nothing else',
      [broken],
      /: ocp 4\.13\.7 needs an undamaged copy\. Plug in another copy of it\. Copy the bundle .*\.$/,
    ],
  ])('stands behind %s', (_what, bundles, reads, over = {}) => {
    const text = line({ runtime: reachable({ images }), ...over }, bundles);
    if (typeof reads === 'string') expect(text).toBe(reads);
    else expect(text).toMatch(reads);
    expect(text.length).toBeLessThanOrEqual(200);
  });

  it('is not named any more once a newer one is installed', () => {
    const newer = stored(verified({ sequence: 8, version: '4.13.8', images: { new: ['new'] } }), {
      readyAt: 1,
      activatedAt: 2,
    });
    const runtime = reachable({ images: [...allListed(newer), ...some] });
    expect(line({ runtime }, [broken, newer])).toMatch(/^IDLE: ocp 4\.13\.8 activated [^:]*Waiting for a stick\.$/);
    const media = [medium('sdc1', [found(newer)])];
    expect(line({ runtime, media }, [broken, newer])).toMatch(/^DONE: ocp 4\.13\.8 is installed\.(?!.*4\.13\.7)/);
  });

  it('asks for the next stick where files were missing', () => {
    const absent = stored(bundle, { badBlobs: [{ ...bad, why: 'absent' }] });
    expect(line({ runtime: reachable({ images }) }, [proven, absent])).toBe(
      'PLUG IN ANOTHER STICK (M-11): ocp 4.13.7 is incomplete. Plug in the stick that carries the rest. ocp 4.13.6 proven (1 image pinned). Waiting for a stick.',
    );
  });
});

describe('statusLine: another stick than the one that a release waits for', () => {
  const old = stored(verified({ sequence: 6, version: '4.13.6', images: { old: ['old'] } }), {
    readyAt: 1,
    activatedAt: 2,
  });
  const next = stored(verified({ sequence: 8, version: '4.13.8', images: { next: ['next'] } }), { readyAt: 1 });
  const images = [...some, ...allListed(old), ...allListed(next)];
  const damaged = { digest: digestOf('layer image-50'), why: 'damaged', medium: 'sdb1' } as const;
  const M10 = 'PLUG IN THE STICK AGAIN (M-10): Stick removed while preloading ocp 4.13.7 (37/112 images).';

  it.each<[string, ReturnType<typeof medium>, StoredBundle, string]>([
    [
      'an old one, which goes first',
      medium('sdc1', [found(old)]),
      adopted,
      'REMOVE THE STICK: ocp 4.13.6 is installed. Then plug in the stick of ocp 4.13.7 (M-10). ',
    ],
    ['a foreign one', medium('sdc1', [refused()]), adopted, `${M10} The bundle on the stick was rejected.`],
    ['an empty one', medium('sdc1', []), adopted, `${M10} The stick carries no bundle.`],
    [
      'an old one, beside a damaged copy',
      medium('sdc1', [found(old)]),
      stored(bundle, { badBlobs: [damaged] }),
      'REMOVE THE STICK: ocp 4.13.6 is installed. Then plug in another stick of ocp 4.13.7 (M-12). ',
    ],
  ])('says first what is needed: %s', (_which, one, waiting, begin) => {
    const over = { media: [one], runtime: reachable({ images }) };
    expect(line(over, [old, waiting]).slice(0, begin.length)).toBe(begin);
  });

  it('needs nothing of the old one any more once a newer one is loaded', () => {
    const over = { media: [medium('sdc1', [found(next)])], runtime: reachable({ images }) };
    expect(line(over, [old, adopted, next])).toMatch(/^LEAVE THE STICK IN: ocp 4\.13\.8 is loaded: /);
  });
});

describe('statusLine: two bundles of one name and version', () => {
  const one = stored(verified({ images: { etcd: ['etcd'] } }), { readyAt: NOON });
  const other = stored(verified({ sequence: 8, images: { api: ['api'] } }));
  const short = (bundle: StoredBundle) => `${bundle.bundleId.slice(0, 'sha256:'.length + 12)}…`;
  const media = [medium('sdb1', [found(other)])];
  const there = reachable({ images: [...allListed(one), ...allListed(other)] });

  it('names a bundle with its digest, and only with its digest in a command', () => {
    const manual = stored(verified({ schedule: 'manual', images: { etcd: ['etcd'] } }), { readyAt: NOON });
    expect(line({ runtime: there }, [other, manual])).toBe(
      `DONE: ocp 4.13.7 (${short(manual)}) is loaded: 1 image present and pinned. An administrator activates it. To activate it: 'stickpin activate ${short(manual).slice(0, -1)}'.`,
    );
  });

  it('names the one that is being pulled', () => {
    const over = { media, runtime: reachable({ images: allListed(one) }), running: [pullOf(other, 'api')] };
    expect(line(over, [one, other])).toContain(`Preloading ocp 4.13.7 (${short(other)}) from the stick: 0/1 images`);
  });

  it('names the one that is held', () => {
    const full = { path: '/var', totalBytes: 10 * GIB, freeBytes: 1 * GIB };
    expect(line({ media, runtime: reachable({ images: allListed(one), filesystem: full }) }, [one, other])).toMatch(
      new RegExp(`: Not enough space for ocp 4\\.13\\.7 on [^.]*.* This is bundle ${short(other)}\\. `),
    );
  });

  it('needs no digest where the other one is retired', () => {
    const retired = stored(verified({ sequence: 5, images: { old: ['old'] } }), { readyAt: NOON, retiredAt: NOON });
    expect(line({ media, runtime: there, running: [pullOf(other, 'api')] }, [retired, other])).not.toContain('sha256:');
  });
});

describe('statusLine: any input', () => {
  it('is one line of printable text with at most 200 characters, for any foreign error', () => {
    const message = `rpc error:\n\tcode = Unknown \u0007 desc = ${'long '.repeat(300)}`;
    const text = line({ media: [medium('sdb1', [refused(message)])] });
    expect(text).toMatch(/: Rejected bundle on the stick: rpc error: code = Unknown desc = long .* long…$/);
    expect(text.length).toBeLessThanOrEqual(200);
    expect(text).toMatch(/^[^\p{Cc}]*$/u);
    expect(line({ runtime: { kind: 'unreachable', reason: message } })).toMatch(
      /: The container runtime does not answer: rpc error: .* long…$/,
    );
  });

  it('never throws, has no newline, and is short for names of normal length', () => {
    const spec = fc.record({
      version: fc.constantFrom('4.13.6', '4.13.7', '4.14.0-rc.1', `4.13.7-${'x'.repeat(110)}`),
      sequence: fc.integer({ min: 5, max: 8 }),
      arch: fc.constantFrom('amd64', 'amd64', 'arm64'),
      schedule: fc.constantFrom('manual' as const, 'immediate' as const),
      images: fc.dictionary(fc.constantFrom('etcd', 'api', 'dns'), fc.subarray(['base', 'one', 'two']), { minKeys: 1 }),
    });
    const anything = fc.record({
      specs: fc.array(spec, { maxLength: 3 }),
      known: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
      marks: fc.array(fc.constantFrom('', 'ready', 'activated'), { minLength: 3, maxLength: 3 }),
      onStick: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
      present: fc.subarray(['etcd', 'api', 'dns']),
      pinned: fc.boolean(),
      isReachable: fc.boolean(),
      runningFirst: fc.boolean(),
      waiting: fc.nat(1),
      rate: fc.constantFrom(undefined, 0, 0.5, 1e3, 1e8),
      other: fc.constantFrom('none', 'empty', 'failed', 'attached', 'refused'),
      failing: fc.boolean(),
      label: fc.constantFrom('sdb1', `/mnt/${'folder/'.repeat(30)}`),
      message: fc.constantFrom('connection refused', `rpc error: ${'many words '.repeat(40)}`, 'z'.repeat(900)),
      isStuck: fc.boolean(),
      isBlind: fc.boolean(),
    });
    fc.assert(
      fc.property(anything, (it) => {
        const bundles = it.specs.map((one) => verified(one as BundleSpec));
        const mark = { '': {}, ready: { readyAt: NOON }, activated: { readyAt: NOON, activatedAt: NOON } };
        const kept = bundles
          .map((one, index) => stored(one, mark[it.marks[index] as keyof typeof mark]))
          .filter((_, index) => it.known[index]);
        const others = {
          none: [],
          empty: [medium('sdc1', [])],
          failed: [medium('sdc1', { kind: 'failed', reason: { code: 'media/mount', message: it.message } })],
          attached: [medium('sdc1', { kind: 'attached' })],
          refused: [medium('sdc1', [refused(it.message)])],
        };
        const first = kept[0];
        const failures = kept.slice(0, it.failing ? 1 : 0).map(
          (one): TaskFailure => ({
            task: pullOf(one, 'etcd'),
            attempts: 1,
            retryAt: NOON,
            reason: { code: 'runtime/pull-failed', message: it.message },
          }),
        );
        const text = line(
          {
            media: [
              medium(
                it.label,
                bundles.filter((_, index) => it.onStick[index]).map((one) => found(one)),
              ),
              ...others[it.other as keyof typeof others],
            ],
            runtime: it.isReachable
              ? reachable({ images: it.present.map((name) => listed(referenceOf(name), it.pinned)) })
              : { kind: 'unreachable', reason: it.message },
            ...(it.isStuck && { obstacle: { code: 'runtime/config', message: it.message } }),
            trust: { ...observation({}).trust, ...(it.isBlind && { revocationsUnreadable: true, cause: it.message }) },
            running: it.runningFirst && first !== undefined ? [pullOf(first, 'etcd')] : [],
            failures,
          },
          kept,
          { doneBytes: 3, totalBytes: 7, bytesPerSecond: it.rate, waitingTransfers: it.waiting },
        );
        expect(text).toMatch(/^\S[^\p{Cc}]*[.…]$/u);
        expect(text.length).toBeLessThanOrEqual(200);
      }),
      { numRuns: 300 },
    );
  });

  it('puts one full stop after foreign text', () => {
    const obstacle = { code: 'runtime/config', message: 'Rendering the pins failed. Restart it.' };
    expect(line({ obstacle })).toBe(
      'CALL SUPPORT (R-08): Rendering the pins failed. Restart it. It is retried automatically.',
    );
    expect(line({ runtime: { kind: 'unreachable', reason: 'no socket.' } })).toBe(
      'CALL SUPPORT (R-02): The container runtime does not answer: no socket. stickpin continues automatically when it answers.',
    );
  });

  it('leaves out notes for which there is no room', () => {
    const media = Array.from({ length: 9 }, (_, index) => medium(`sdc${index}`, [refused()]));
    const text = line({ media: [...media, stick], runtime: complete }, [active]);
    expect(text).toMatch(/DONE: ocp 4\.13\.7 is installed\. .* 1 bundle on sdc0 was rejected\./);
    expect(text.length).toBeLessThanOrEqual(200);
  });

  it('is short even when it names digests', () => {
    const reference = `quay.example.com/openshift-release-dev/ocp-v4.0-art-dev@${digestOf('x')}`;
    const long = verified({ images: { a: ['a'] }, imageOver: { a: { reference, digest: digestOf('x') } } });
    const ignored = line(
      {
        runtime: reachable({ images: [listed(reference, false)] }),
        pinsRequested: { references: [reference], unpinned: reference, attempts: 12, at: NOON },
      },
      [stored(long)],
    );
    const lacking = line({ media: [medium('sdb1', [found(long, [{ digest: digestOf('layer a'), why: 'absent' }])])] }, [
      stored(long),
    ]);
    for (const text of [ignored, lacking]) {
      expect(text).toMatch(/[^…]$/);
      expect(text.length).toBeLessThanOrEqual(200);
    }
  });
});

describe('statusLine: what is wrong with what an administrator gave', () => {
  const { trust, facts } = observation({});
  const alarm = "No key is trusted: copy the factory's .pub file to /etc/stickpin/keys.d";

  it('stands in place of Idle', () => {
    expect(line({ trust: { ...trust, alarm: { code: 'trust/no-key', message: alarm } } })).toBe(
      `CALL SUPPORT (K-01): ${alarm}. No bundle yet. Waiting for a stick.`,
    );
    const settingsFault = 'stickpin.toml: preload.paralel is not a setting of stickpin; check its spelling';
    expect(line({ facts: { ...facts, settingsFault } })).toMatch(
      /: The new settings are refused: stickpin\.toml: preload\.paralel/,
    );
    expect(
      line({ trust: { ...trust, alarm: { code: 'trust/no-key', message: alarm } }, runtime: complete }, [active]),
    ).toBe(`CALL SUPPORT (K-01): ${alarm}. ocp 4.13.7 activated (112 images present and pinned). Waiting for a stick.`);
  });
});

describe('statusLine while the fleet process is away', () => {
  const withFleet = { ...POLICY, fleet: { ...POLICY.fleet, enabled: true } };
  const served = (policy: Policy, over: Partial<Scene> = {}, bundles: readonly StoredBundle[] = [ready]) => {
    const observed = observation({ media: [stick], runtime: complete, ...over });
    return statusLine({ observed, memory: observed, assessment: judge(observed, bundles, policy).assessment }, still);
  };
  const self = { self: 'worker-1', nodes: [], peers: [] };

  it.each([
    { what: 'ready', bundles: [ready] },
    { what: 'activated', bundles: [active] },
    { what: 'ready and held', bundles: [stored(manual, { readyAt: NOON })], media: [medium('sdb1', [found(manual)])] },
  ])('never lets the stick of a release go that is $what, since nobody knows who needs it', ({ bundles, ...over }) => {
    const text = served(withFleet, { fleet: undefined, ...over }, bundles);
    expect(text).toContain('stickpin-fleet.service does not say who needs the stick.');
    expect(text).toMatch(/^LEAVE THE STICK IN/);
    expect(text.length).toBeLessThanOrEqual(200);
  });

  it('says to leave the stick in beside what only support can mend, while another node loads from it', () => {
    const loading = {
      name: 'ocp',
      version: '4.13.7',
      bundle: bundle.bundleId.slice(7, 23),
      phase: 'preloading',
    } as const;
    const other = { name: 'worker-2', isAbsent: false, status: { version: 1, releases: [loading] } } as const;
    const fleet = { ...self, nodes: [other] };
    const away = { kind: 'unreachable', reason: 'connect ENOENT /run/crio/crio.sock' } as const;
    const text = served(withFleet, { fleet, runtime: away }, [active]);
    expect(text).toMatch(/^CALL SUPPORT \(R-02\): .*Leave the stick in: 1 of 2 nodes still load from the stick\./);
    expect(text.length).toBeLessThanOrEqual(200);
  });

  describe('in a partition', () => {
    const since = NOON - 3_600_000;
    const lacking = (name: string) => ({ name, isAbsent: false, status: { version: 1, releases: [] } }) as const;
    const peer = (name: string, more = {}) => ({ name, address: '10.0.0.9:9777', bundles: [], ...more });
    const away = { trouble: 'no route to host', since };
    const nodes = [lacking('worker-2'), lacking('worker-3')];
    const peers = [peer('worker-2', away), peer('worker-3', { ...away, since: since - 60_000 })];
    const note =
      'No other node answers since 2026-03-10T11:00:00Z (worker-2 and 1 more): check the network and TCP port';

    it('says on the node with the stick that it reaches nobody, since when, and what to look at, and calls nobody', () => {
      const text = served(withFleet, { fleet: { ...self, nodes, peers } }, [active]);
      expect(text).toMatch(/^LEAVE THE STICK IN: /);
      expect(text).toContain(note);
      expect(text.length).toBeLessThanOrEqual(200);
      // The stick may go, since nobody has begun for an hour.
      const fleet = { ...self, nodes, peers, search: 'long' } as const;
      const old = { ...active, readyAt: NOON - 3_600_000 };
      const later = served(withFleet, { fleet, arrivals: new Map([['7-sdb1', { at: 0, sequences: new Map() }]]) }, [
        old,
      ]);
      expect(later).toMatch(/^DONE: /);
      expect(later).toContain(note);
    });

    it.each([
      ['a node that is planned alone', { nodes: [], peers: [] }],
      ['one other node answers', { nodes, peers: [peers[0], peer('worker-3')] }],
      ['all were switched off a moment ago', { nodes, peers: [peers[0], peer('worker-3', { trouble: 'timeout' })] }],
      ['all others have the release', { nodes: [], peers }],
    ] as const)('says nothing where %s', (_, over) => {
      const fleet = { ...self, ...over } as NonNullable<Scene['fleet']>;
      expect(served(withFleet, { fleet }, [active])).not.toContain('answers since');
    });
  });

  it('keeps the stick of a bundle for nodes of another architecture, while one of them loads it', () => {
    const foreign = medium('sdc1', [found(verified({ arch: 'arm64' }))]);
    const other = { name: 'worker-2', isAbsent: false, status: { version: 1, arch: 'arm64', releases: [] } } as const;
    const [busy, done] = [{ ...self, nodes: [other] }, self].map((fleet) =>
      served(withFleet, { fleet, media: [foreign] }, [active]),
    );
    expect(busy).toMatch(
      /^PLUG IN ANOTHER STICK \(B-01\): .*Leave the stick in: 1 of 2 nodes still load from the stick/,
    );
    expect(done).not.toContain('Leave the stick in');
  });

  it('sends somebody once it has been silent for minutes, with the stick and without', () => {
    for (const media of [[stick], []]) {
      const text = served(withFleet, { fleet: undefined, isFleetSilent: true, media }, [active]);
      expect(text).toMatch(/^CALL SUPPORT \(F-01\): stickpin-fleet\.service does not answer\. See '/);
      expect(text.includes('Leave the stick in: ')).toBe(media.length > 0);
    }
  });

  it('sends somebody while the list of keys has a fault, until it is mended', () => {
    const trouble = 'line 2 of fleet.keys gives host-2 the key of host-1; the keys from before stay in use';
    const keyed = (keys: object) => ({ ...self, apiTrouble: 'It is not used.', keys: { isRead: true, ...keys } });
    const text = served(withFleet, { fleet: keyed({ trouble }), media: [] }, [active]);
    expect(text).toMatch(/^CALL SUPPORT \(F-40\): Line 2 of fleet\.keys gives host-2 the key of host-1; the keys from/);
    expect(served(withFleet, { fleet: keyed({}), media: [] }, [active])).not.toContain('F-40');
  });

  it('lets it go once the process says that nobody needs it, and on a node without a fleet', () => {
    expect(served(withFleet, { fleet: self }, [active])).toContain('Remove the stick.');
    expect(served(POLICY, {}, [active])).toContain('Remove the stick.');
  });
});
