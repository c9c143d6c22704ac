import { describe, expect, it } from 'vitest';
import { isBaseInNeed, removableIds, roomFor, surplusBundles } from '../../../../src/domain/release/retention.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  digestOf,
  MIB,
  NOON,
  POLICY,
  referenceOf,
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
      roomFor(next, { bytes: MIB, inodes: 0 }, storedState([old, good, next], { pulledByUs: brought }), lifecycle);
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
      return removableIds(retired, { images: [image], ids: ids as never, stored: state });
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
    roomFor(next, lacking, storedState(all, { pulledByUs: brought }), lifecycle);

  it('retires the oldest fallback that frees some of the missing space, when all of them free enough', () => {
    expect([bytes, inodes].every((amount) => amount > 0)).toBe(true);
    expect(room({ bytes: 1, inodes: 0 })).toBe(old);
    expect(room({ bytes: 2 * bytes, inodes: 2 * inodes })).toBe(old);
    expect(room({ bytes: 0, inodes: 2 * inodes })).toBe(old);
  });

  it.each([
    { bytes: 2 * bytes + 1, inodes: 0 },
    { bytes: 0, inodes: 2 * inodes + 1 },
    { bytes: 2 * bytes, inodes: 2 * inodes + 1 },
  ])('retires none when that is not enough: $bytes bytes, $inodes inodes', (lacking) => {
    expect(room(lacking)).toBeUndefined();
  });
});
