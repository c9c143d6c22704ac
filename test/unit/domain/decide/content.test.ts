import { describe, expect, it } from 'vitest';
import { contentPlan } from '../../../../src/domain/decide/release-effects.ts';
import type { ImageContent } from '../../../../src/domain/model/image.ts';
import { type ContentChecks, NO_CHECKS } from '../../../../src/domain/state/checks.ts';
import type { Memory } from '../../../../src/domain/state/memory.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  reachable,
  referenceOf,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: 1, activatedAt: 2 });
const etcd = referenceOf('etcd');
const truncated: ImageContent = {
  kind: 'broken',
  faults: [{ kind: 'blob', digest: digestOf('layer etcd'), why: 'truncated' }],
};
const damagedAt = (at: number) => new Map([[etcd, { at, content: truncated }]]);
const FRESH = NOON - 60_000;
const DISK_FULL: Partial<Memory> = {
  failures: [
    {
      task: { kind: 'pull', bundleId: bundle.bundleId, reference: etcd },
      attempts: 1,
      reason: { code: 'runtime/no-space', message: 'no space left' },
      retryAt: NOON + 60_000,
    },
  ],
};

/** What follows while the stick is plugged in, no container runs, and `checks` are remembered. */
function planWith(checks: Partial<ContentChecks>, over: Partial<Memory> = {}) {
  const scene = observation({
    runtime: reachable({ images: allListed(bundle) }),
    media: [medium('sdb1', [found(bundle)])],
    localBlobs: new Set(bundle.contents.images.map(({ digest }) => digest)),
    containers: [],
    contentChecks: { ...NO_CHECKS, ...checks },
    ...over,
  });
  return contentPlan(scene, judge(scene, [bundle]).assessment, { now: NOON, isAtRest: true });
}

describe('what follows from checks of images', () => {
  const imageId = digestOf(`id ${etcd}`);
  const heal = {
    effects: [
      {
        kind: 'heal-images',
        images: [
          {
            reference: etcd,
            bundleId: bundle.bundleId,
            forget: [digestOf('layer etcd')],
            removal: { imageId, containerIds: [] },
          },
        ],
      },
    ],
  };
  const nothing = { effects: [] };
  const again = { effects: [], check: { cause: 'again', references: [etcd] } };
  const running = { cause: 'request', done: 0, total: 1, readBytes: 0 } as const;

  const rows: [string, Parameters<typeof planWith>, unknown][] = [
    ['nothing when no check is due', [{}], nothing],
    ['a check that is due', [{ isDue: true }], { effects: [], check: { cause: 'unclean-boot' } }],
    [
      'a check that is due even while the disk is full',
      [{ isDue: true, isAwaited: true }, DISK_FULL],
      { effects: [], check: { cause: 'unclean-boot' } },
    ],
    ['no second one in the life of a daemon', [{ isDue: true, endedAt: FRESH }], nothing],
    ['nothing while a check runs', [{ isDue: true, running, results: damagedAt(FRESH) }], nothing],
    ['the removal of a damaged image', [{ results: damagedAt(FRESH) }], heal],
    ['another look first when the last one was long ago', [{ results: damagedAt(NOON - 11 * 60_000) }], again],
    ['another look when the clock was set back', [{ results: damagedAt(NOON + 60_000) }], again],
    ['another look at what was healed and pulled', [{ healed: [etcd] }], again],
    [
      'nothing while a pull is tested, which would bring the image back',
      [{ results: damagedAt(FRESH) }, { pullChecks: { isRunning: true, last: undefined } }],
      nothing,
    ],
    [
      'nothing while the disk is full, since nothing could be pulled',
      [{ results: damagedAt(FRESH) }, DISK_FULL],
      nothing,
    ],
  ];
  it.each(rows)('%s', (_what, given, expected) => {
    expect(planWith(...given)).toEqual(expected);
  });

  it('checks an image that was removed as damaged only once it is back', () => {
    const images = allListed(bundle).filter(({ repoDigests }) => !repoDigests.includes(etcd));
    const scene = observation({
      runtime: reachable({ images }),
      contentChecks: { ...NO_CHECKS, healed: [etcd] },
    });
    expect(contentPlan(scene, judge(scene, [bundle]).assessment, { now: NOON, isAtRest: true })).toEqual(nothing);
  });

  it('does nothing while anything is pulled', () => {
    const scene = observation({
      runtime: reachable({ images: allListed(bundle) }),
      media: [medium('sdb1', [found(bundle)])],
      localBlobs: new Set(bundle.contents.images.map(({ digest }) => digest)),
      containers: [],
      contentChecks: { ...NO_CHECKS, isDue: true, results: damagedAt(FRESH) },
      running: [{ kind: 'pull', bundleId: bundle.bundleId, reference: referenceOf('api') }],
    });
    const { decision } = judge(scene, [bundle]);
    expect(decision.contentCheck).toBeUndefined();
    expect(decision.effects.map(({ kind }) => kind)).not.toContain('heal-images');
  });
});
