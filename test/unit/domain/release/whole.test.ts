import { describe, expect, it } from 'vitest';
import type { ImageContent } from '../../../../src/domain/model/image.ts';
import {
  isReliable,
  type Presence,
  provableReleases,
  reliedOn,
  wholeReleases,
} from '../../../../src/domain/release/whole.ts';
import { type ContentChecks, NO_CHECKS } from '../../../../src/domain/state/checks.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import { NOON, stored, verified } from '../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: NOON });
const [first, second] = bundle.contents.images.map(({ reference }) => reference);

const WHOLE: ImageContent = { kind: 'whole', by: 'bytes' };
const UNKNOWN: ImageContent = { kind: 'unknown', reason: { code: 'runtime/config', message: 'no driver' } };
const BROKEN: ImageContent = { kind: 'broken', faults: [] };

function isWhole(over: Partial<Presence> = {}, checks?: Partial<ContentChecks>, releases = wholeReleases): boolean {
  const presence: Presence = {
    bundle,
    absentImages: [],
    absentArtifacts: [],
    unpinnedImages: [],
    unsyncedImages: [],
    ...over,
  };
  return releases([presence], checks && { ...NO_CHECKS, ...checks }).has(presence.bundle.bundleId);
}

const results = (...contents: readonly ImageContent[]) =>
  new Map(contents.map((content, at) => [[first, second][at] ?? '', { at: NOON, content }]));

describe('a whole release', () => {
  it('has all images and artifacts, all pins, all of it on the disk, and is kept', () => {
    expect(isWhole()).toBe(true);
    for (const lack of ['absentImages', 'absentArtifacts', 'unpinnedImages', 'unsyncedImages'] as const)
      expect(isWhole({ [lack]: ['x'] })).toBe(false);
    expect(isWhole({ bundle: { ...bundle, retiredAt: NOON + 1 } })).toBe(false);
  });

  it('has no image that was found damaged, or that was removed for that and is not checked since', () => {
    expect(isWhole({}, { results: results(WHOLE, BROKEN) })).toBe(false);
    expect(isWhole({}, { healed: [first ?? ''] })).toBe(false);
    expect(isWhole({}, { results: results(WHOLE, WHOLE) })).toBe(true);
  });

  it('has no image that is unchecked after an unclean boot, while one that was pulled since counts', () => {
    const due = { isDue: true };
    expect(isWhole({}, due)).toBe(false);
    expect(isWhole({}, { ...due, results: results(WHOLE) })).toBe(false);
    expect(isWhole({}, { ...due, results: results(WHOLE, WHOLE) })).toBe(true);
    expect(isWhole({}, { ...due, endedAt: NOON, results: results(WHOLE) })).toBe(true);
    expect(isWhole({}, { ...due, endedAt: NOON, results: results(WHOLE, UNKNOWN) })).toBe(false);
    expect(isWhole({}, { results: results(WHOLE, UNKNOWN) })).toBe(true);
  });

  it('may be proven with an image that the runtime can not check, after three checks without a result', () => {
    const isSoundAfter = (unknownChecks: number, over: Partial<ContentChecks>, releases = provableReleases) => {
      const result = { at: NOON, content: UNKNOWN, unknownChecks };
      const all = new Map([...results(WHOLE), [second ?? '', result] as const]);
      return isWhole({}, { isDue: true, endedAt: NOON, results: all, ...over }, releases);
    };
    expect([1, 2, 3, 4].map((checks) => isSoundAfter(checks, {}))).toEqual([false, false, true, true]);
    expect(isSoundAfter(3, { endedAt: undefined })).toBe(false);
    expect(isSoundAfter(3, { healed: [second ?? ''] })).toBe(false);
    expect(isSoundAfter(3, {}, wholeReleases)).toBe(false);
  });
});

describe('what a node goes back to', () => {
  const release = (sequence: number, marks: Partial<StoredBundle>) =>
    stored(verified({ sequence, version: `4.13.${sequence}` }), marks);
  const proven = release(1, { activatedAt: NOON, provenAt: NOON });
  const current = release(2, { activatedAt: NOON + 1 });

  it('is the last known good release, and without one the current release', () => {
    expect(reliedOn([proven, current], 'ocp')).toBe(proven);
    expect(reliedOn([current], 'ocp')).toBe(current);
    expect(reliedOn([proven], 'tools')).toBeUndefined();
  });

  it('must be whole before others are given up; a stream without it relies on nothing', () => {
    expect(isReliable('ocp', [proven, current], new Set([proven.bundleId]))).toBe(true);
    expect(isReliable('ocp', [proven, current], new Set([current.bundleId]))).toBe(false);
    expect(isReliable('tools', [proven], new Set())).toBe(true);
  });
});
