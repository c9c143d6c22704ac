import { describe, expect, it } from 'vitest';
import type { RuntimeContainer } from '../../../../src/domain/model/image.ts';
import { imageIds } from '../../../../src/domain/release/evidence.ts';
import { removals, retirements } from '../../../../src/domain/release/retirement.ts';
import { needsContainers } from '../../../../src/domain/release/running-releases.ts';
import { assessShares } from '../../../../src/domain/release/shares.ts';
import type { RunningTask } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  listed,
  MIB,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  type Scene as SceneOver,
  stored,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const release = (sequence: number, marks: Partial<StoredBundle> = {}): StoredBundle =>
  stored(
    verified({
      sequence,
      version: `4.13.${sequence}`,
      images: { [`etcd-${sequence}`]: [`layer-${sequence}`] },
      imageOver: { [`etcd-${sequence}`]: { component: 'etcd' } },
    }),
    marks,
  );
const done = (at: number) => ({ readyAt: at, activatedAt: at, activeAt: at, provenAt: at });
const oldest = release(1, done(NOON - 30));
const fallback = release(2, done(NOON - 20));
const good = release(3, done(NOON - 10));
const next = release(4);

interface Scene {
  readonly bundles: readonly StoredBundle[];
  /** Of these the runtime has the images; default all but of the next one. */
  readonly present?: readonly StoredBundle[];
  readonly running?: readonly RunningTask[];
  readonly containers?: readonly RuntimeContainer[];
  /** Not whole. */
  readonly broken?: readonly StoredBundle[];
}

/** The versions that are retired while the next release is short of one MiB. */
function retired({ bundles, present = [oldest, fallback, good], running = [], containers = [], broken = [] }: Scene) {
  const images = present.flatMap((bundle) => allListed(bundle)).map((image) => ({ ...image, pinned: false }));
  const observed = observation({ runtime: reachable({ images }), running, containers });
  const pulledByUs = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  const look = {
    observed,
    memory: observed,
    stored: storedState(bundles, { pulledByUs }),
    policy: POLICY,
    containers,
    ids: imageIds(images),
    unclaimed: [],
    whole: new Set(bundles.filter((bundle) => !broken.includes(bundle)).map(({ bundleId }) => bundleId)),
    provable: new Set<never>(),
  };
  const shares = assessShares(bundles, { observed, policy: POLICY, isTrusted: () => true });
  const findings = retirements(look, [{ bundle: next, lacking: { bytes: MIB, inodes: 0 } }], shares);
  return findings.flatMap((one) =>
    one.kind === 'spare' ? [bundles.find(({ bundleId }) => bundleId === one.bundleId)?.payload.version] : [],
  );
}

describe('releases that make room for the next one', () => {
  it('are the fallback, when nothing else is surplus', () => {
    expect(retired({ bundles: [fallback, good, next] })).toEqual(['4.13.2']);
  });

  it('are none, nor any surplus ones, while the last known good release is not whole', () => {
    expect(retired({ bundles: [fallback, good, next], broken: [good] })).toEqual([]);
    expect(retired({ bundles: [oldest, fallback, good, next], broken: [good] })).toEqual([]);
    expect(retired({ bundles: [oldest, fallback, good, next], broken: [fallback] })).toEqual(['4.13.1']);
  });

  it('are none while images of the last one that was retired are still there', () => {
    const leaving = { ...oldest, retiredAt: NOON - 1, removeImages: true };
    expect(retired({ bundles: [leaving, fallback, good, next] })).toEqual([]);
    expect(retired({ bundles: [leaving, fallback, good, next], present: [fallback, good] })).toEqual(['4.13.2']);
  });

  it('are none that is surplus anyway: that one goes first', () => {
    expect(retired({ bundles: [oldest, fallback, good, next] })).toEqual(['4.13.1']);
  });

  it('are none that runs, or that is being activated', () => {
    const container: RuntimeContainer = {
      containerId: 'one',
      key: 'etcd',
      attempt: 0,
      imageNames: [referenceOf('etcd-2')],
      state: 'running',
      startedAt: NOON,
      exitCode: 0,
    };
    expect(retired({ bundles: [fallback, good, next], containers: [container] })).toEqual([]);
    const unread: RuntimeContainer = { ...container, imageNames: [], volumeImages: 'unknown' };
    expect(retired({ bundles: [fallback, good, next], containers: [unread] })).toEqual([]);
    const activate = { kind: 'activate', bundleId: fallback.bundleId } as const;
    expect(retired({ bundles: [fallback, good, next], running: [activate] })).toEqual([]);
  });
});

describe('tags that only a retired release gave to an image that stays', () => {
  const HOUR = 3_600_000;
  const etcd = (sequence: number, version: string, marks: Partial<StoredBundle>): StoredBundle =>
    stored(verified({ sequence, version, images: { etcd: ['layer'], [`api-${sequence}`]: ['other'] } }), marks);
  const old = etcd(1, '4.13.1', { ...done(NOON - 30), retiredAt: NOON - 1, removeImages: true });
  const kept = etcd(2, '4.13.2', done(NOON - 10));
  const [oldTag, keptTag, foreignTag] = ['1', '2', '9'].map((patch) => `quay.example.com/ocp/etcd:4.13.${patch}`);
  const shared = listed(referenceOf('etcd'), true, [oldTag ?? '', keptTag ?? '', foreignTag ?? '']);
  const pod = (podImage?: string): RuntimeContainer => ({
    containerId: 'one',
    key: 'etcd',
    attempt: 0,
    imageNames: [shared.imageId],
    state: 'exited',
    startedAt: NOON,
    exitCode: 1,
    ...(podImage !== undefined && { podImage }),
  });
  const nothingAsked = { uses: [], faults: [], isComplete: true };

  function spared({
    bundles = [old, kept],
    image = shared,
    containers = [pod(keptTag)],
    unclaimed = [],
    ...over
  }: Partial<SceneOver> & {
    readonly bundles?: readonly StoredBundle[];
    readonly image?: typeof shared;
    readonly containers?: readonly RuntimeContainer[];
    readonly unclaimed?: readonly string[];
  } = {}) {
    const runtime = reachable({ images: [image] });
    const observed = observation({ runtime, containers, imageUses: nothingAsked, ...over });
    const pulledByUs = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
    const all = storedState(bundles, { pulledByUs });
    const whole = new Set(bundles.map(({ bundleId }) => bundleId));
    const look = {
      observed,
      memory: observed,
      stored: all,
      policy: POLICY,
      containers,
      unclaimed,
      whole,
      provable: whole,
    };
    const findings = removals({ ...look, ids: imageIds([image]) });
    const before = { isShort: false, sinceListMs: 0, tagsGiven: [], observed };
    return {
      tags: findings.flatMap((one) => (one.kind === 'removable' ? (one.tags ?? []) : [])),
      isLookNeeded: needsContainers(all, runtime, POLICY, before),
    };
  }

  it('are removed, and containers are looked at for that', () => {
    expect(spared()).toEqual({ tags: [oldTag], isLookNeeded: true });
  });

  it('stay after a day', () => {
    expect(spared({ now: NOON + 24 * HOUR })).toEqual({ tags: [], isLookNeeded: false });
  });

  it('stay when images of the release are to stay, or it never gave them', () => {
    const { activatedAt: _, ...never } = old;
    for (const one of [{ ...old, removeImages: false }, never]) {
      expect(spared({ bundles: [one, kept] })).toEqual({ tags: [], isLookNeeded: false });
    }
  });

  it('stay when the image has no tag of a kept release: it may have no other name', () => {
    const alone = listed(referenceOf('etcd'), true, [oldTag ?? '', foreignTag ?? '']);
    expect(spared({ image: alone }).tags).toEqual([]);
    expect(spared({ image: { ...shared, pinned: false } }).tags).toEqual([]);
  });

  it('stay when another release of any stream names them, one whose images stay too', () => {
    const names = { etcd: { tags: [oldTag ?? ''] } };
    const other = stored(verified({ name: 'apps', images: { etcd: ['layer'] }, imageOver: names }));
    expect(spared({ bundles: [old, kept, other] }).tags).toEqual([]);
    const gone = { ...other, retiredAt: NOON, removeImages: false };
    expect(spared({ bundles: [old, kept, gone] }).tags).toEqual([]);
    expect(spared({ unclaimed: [referenceOf('etcd')] }).tags).toEqual([]);
  });

  it.each([
    ['a static pod', { imageUses: { ...nothingAsked, uses: [{ usedBy: 'Pod a', image: oldTag ?? '' }] } }, false],
    ['a short name', { imageUses: { ...nothingAsked, uses: [{ usedBy: 'Pod a', image: 'etcd:4.13.1' }] } }, false],
    ['a container that has exited', { containers: [pod(`${oldTag}@sha256:${'0'.repeat(64)}`)] }, true],
  ])('stay while %s asks for them', (_what, over, isLookNeeded) => {
    expect(spared(over)).toEqual({ tags: [], isLookNeeded });
  });

  it.each([
    ['a manifest', { imageUses: { ...nothingAsked, isComplete: false } }],
    ['a static pod', { imageUses: { ...nothingAsked, faults: [{ code: 'host/static-pods', message: 'x' }] } }],
    ['all static pods', { imageUses: undefined }],
    ['the image of sandboxes', { imageUses: { ...nothingAsked, uses: [{ usedBy: 'every pod', image: '' }] } }],
    ['the name in a pod', { containers: [pod()] }],
    ['an image volume', { containers: [{ ...pod(keptTag), volumeImages: [shared.imageId] }] }],
    ['pods, since the node has just booted', { boot: { bootId: 'boot-1', uptimeMs: 60_000 } }],
    ['tags, since they are moved', { running: [{ kind: 'activate', bundleId: kept.bundleId } as const] }],
  ])('stay while it is not known: %s', (_what, over) => {
    expect(spared(over).tags).toEqual([]);
  });
});
