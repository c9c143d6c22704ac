import { describe, expect, it } from 'vitest';
import { isBaseInNeed, removableIds, surplusBundles } from '../../../../src/domain/release/retention.ts';
import { roomFor } from '../../../../src/domain/release/room.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  artifactBlobs,
  digestOf,
  GIB,
  judge,
  MIB,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  type Scene,
  stored,
  storedState,
  verified,
} from '../../../support/daemon/scenario.ts';

const release = (sequence: number, marks: Partial<StoredBundle> = {}, base?: StoredBundle): StoredBundle =>
  stored(
    verified({
      sequence,
      version: `4.13.${sequence}`,
      images: { [`etcd-${sequence}`]: [`layer-${sequence}`] },
      ...(base !== undefined && { update: { base: base.bundleId } }),
    }),
    marks,
  );
const done = (at: number) => ({ readyAt: at, activatedAt: at, activeAt: at, provenAt: at });
const old = release(1, done(NOON + 1));
const middle = release(2, done(NOON + 2));
const good = release(3, done(NOON + 3));
const delta = release(4, {}, old);
const lifecycle = { ...POLICY.lifecycle, keep: 2 };

describe('the base of a delta', () => {
  it('is not kept when it is of another stream and was adopted after the delta', () => {
    const foreign = stored(verified({ name: 'tools', version: '1.0.0', images: { shell: ['shell'] } }));
    expect(isBaseInNeed(foreign, [foreign, release(8, {}, foreign)])).toBe(false);
  });

  it('is kept while the delta is kept and not ready, and no longer', () => {
    const kept = [old, middle, good];
    const surplus = (...more: readonly StoredBundle[]) => surplusBundles([...kept, ...more], lifecycle);
    expect(surplus()).toEqual([old]);
    expect(surplus(delta)).toEqual([]);
    expect(surplus({ ...delta, readyAt: NOON + 4 })).toEqual([old]);
    expect(surplus({ ...delta, retiredAt: NOON + 4 })).toEqual([old]);
    expect(surplus(release(4, {}, good))).toEqual([old]);
  });

  it('is not retired to free space, not even for the delta itself', () => {
    const brought = new Set([old, middle].flatMap(({ contents }) => contents.images.map((image) => image.reference)));
    const room = (next: StoredBundle) =>
      roomFor(
        { bundle: next, lacking: { bytes: MIB, inodes: 0 } },
        storedState([old, good, next], { pulledByUs: brought }),
        lifecycle,
      );
    expect(room(release(4))).toBe(old);
    expect(room(delta)).toBeUndefined();
  });

  it('keeps its images even if it is retired already', () => {
    const reference = referenceOf('etcd-1');
    const image = { imageId: digestOf('id'), repoTags: [], repoDigests: [reference], pinned: false };
    const retired = { ...old, retiredAt: NOON + 9, removeImages: true };
    const ids = { of: (name: string) => (name === reference ? image.imageId : undefined) };
    const removable = (...more: readonly StoredBundle[]) => {
      const state = storedState([retired, ...more], { pulledByUs: new Set([reference]) });
      return removableIds({ images: [image], ids: ids as never, stored: state, policy: POLICY }).get(retired) ?? [];
    };
    expect(removable(good)).toEqual([image.imageId]);
    expect(removable(good, delta)).toEqual([]);
    expect(isBaseInNeed(retired, [retired, delta])).toBe(true);
  });
});

describe('roomFor', () => {
  const next = release(4);
  const all = [old, middle, good, next];
  const brought = new Set(all.flatMap(({ contents }) => contents.images.map((image) => image.reference)));
  const [layer] = old.contents.layers;
  const [bytes, inodes] = [layer?.diskBytes ?? 0, layer?.inodes ?? 0];
  const room = (lacking: { bytes: number; inodes: number }) =>
    roomFor({ bundle: next, lacking }, storedState(all, { pulledByUs: brought }), lifecycle);

  it('retires the oldest fallback that frees some of the missing space, when all of them free enough', () => {
    expect([bytes, inodes].every((amount) => amount > 0)).toBe(true);
    expect(room({ bytes: 1, inodes: 0 })).toBe(old);
    expect(room({ bytes: 2 * bytes, inodes: 2 * inodes })).toBe(old);
    expect(room({ bytes: 0, inodes: 2 * inodes })).toBe(old);
  });

  it('does not retire a release that was rolled back before the tags have left it', () => {
    const back = release(3, { readyAt: NOON + 2, activatedAt: NOON + 2, activeAt: NOON + 2, rolledBackAt: NOON + 3 });
    const roomWith = (again: StoredBundle) => {
      const bundles = [again, back, next];
      return roomFor(
        { bundle: next, lacking: { bytes: 1, inodes: 0 } },
        storedState(bundles, { pulledByUs: brought }),
        lifecycle,
      );
    };
    const requested = release(2, { ...done(NOON + 1), activationRequestedAt: NOON + 4 });
    expect(roomWith(requested)).toBeUndefined();
    expect(roomWith({ ...requested, activatedAt: NOON + 5, provenAt: NOON + 6 })).toBe(back);
  });

  it('counts the artifacts that it frees on the filesystem of the images, one release at a time', () => {
    const withModel = (sequence: number, artifact: string, marks: Partial<StoredBundle> = {}) =>
      stored(
        verified({
          version: `4.13.${sequence}`,
          sequence,
          images: { [`etcd-${sequence}`]: [`layer-${sequence}`] },
          artifacts: { [artifact]: [artifact] },
          layers: { [artifact]: { sizeBytes: GIB } },
        }),
        marks,
      );
    const kept = [withModel(1, 'one', done(NOON + 1)), withModel(2, 'two', done(NOON + 2)), good];
    const images = kept.flatMap(allListed);
    const spare = (over: Partial<Scene>, bundles: readonly StoredBundle[] = kept) => {
      const large = withModel(4, 'four');
      const localBlobs = new Set(bundles.flatMap((one) => [...artifactBlobs(one)]));
      const filesystem = { path: '/var/lib/containers', totalBytes: 10 * GIB, freeBytes: 2 * GIB };
      const runtime = reachable({ name: 'containerd 1.7.24', images: [...images, ...allListed(large)], filesystem });
      const scene = observation({ runtime, localBlobs, containers: [], layersBesideImages: true, ...over });
      const { assessment } = judge(scene, [...bundles, large], { ...POLICY, lifecycle: { ...lifecycle, keep: 3 } });
      return assessment.life.findings.flatMap((one) => (one.kind === 'spare' ? [one.bundleId] : []));
    };
    expect(spare({})).toEqual([kept[0]?.bundleId]);
    const [first, ...others] = kept;
    if (first === undefined) expect.unreachable();
    const retired = [{ ...first, retiredAt: NOON + 9, removeImages: true }, ...others];
    // Its files are still there: the space that they free has to be seen first.
    expect(spare({}, retired)).toEqual([]);
    const later = { now: NOON + 60_000, localBlobs: artifactBlobs(others[0] ?? first) };
    expect(spare(later, retired)).toEqual([others[0]?.bundleId]);
  });

  it.each([
    { bytes: 2 * bytes + 1, inodes: 0 },
    { bytes: 0, inodes: 2 * inodes + 1 },
    { bytes: 2 * bytes, inodes: 2 * inodes + 1 },
  ])('retires none when that is not enough: $bytes bytes, $inodes inodes', (lacking) => {
    expect(room(lacking)).toBeUndefined();
  });
});
