import { describe, expect, it } from 'vitest';
import { documentCheckOf } from '../../../../src/domain/release/damaged-images.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  artifactBlobs,
  artifactOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  reachable,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf } from '../../../support/daemon/told.ts';

const bundle = verified({ images: { etcd: ['etcd'] }, artifacts: { small: ['model'] } });
const small = artifactOf('small');
const runtime = reachable({ images: allListed(bundle) });
const stick = medium('sdb1', [found(bundle)]);
/** All blobs of the artifact except these. */
const without = (...lost: readonly string[]) =>
  new Set([...artifactBlobs(bundle)].filter((digest) => !lost.includes(digest)));
const seen = (over: Partial<Scene>, marks: Partial<StoredBundle> = {}) =>
  judge(observation({ runtime, ...over }), [stored(bundle, marks)]).first;

describe('an artifact whose manifest or config is lost on this node', () => {
  const active = { readyAt: NOON, activatedAt: NOON };
  it.each([
    ['manifest', small.digest],
    ['config', small.config.digest],
  ])('is reported, since no medium is there, and waits for one: %s', (_what, digest) => {
    const localBlobs = without(digest);
    expect(textOf(seen({ localBlobs }, active)?.degraded)).toContain(
      `1 of 2 images and artifacts of ocp 4.13.7 is missing. It is ${small.reference}. Plug in the stick of ocp 4.13.7`,
    );
    expect(seen({ localBlobs })).toMatchObject({ phase: 'held', hold: 'media', reason: { code: 'engine/no-source' } });
    expect(seen({ localBlobs, media: [stick] })).toMatchObject({ phase: 'preloading' });
    const lacking = medium('sdb1', [found(bundle, [{ digest, why: 'absent' }])]);
    expect(seen({ localBlobs, media: [lacking] })).toMatchObject({
      hold: 'media',
      reason: { code: 'bundle/blob-missing' },
    });
  });

  it('is completed also before its release was ready', () => {
    const check = (localBlobs: Scene['localBlobs']) =>
      documentCheckOf([stored(bundle)], observation({ localBlobs })).images.map(({ reference }) => reference);
    expect(check(without())).toEqual([]);
    expect(check(without(small.digest))).toEqual([small.reference]);
    expect(check(without(small.config.digest))).toEqual([small.reference]);
  });

  it('is reported when it is noticed by a check alone', () => {
    const last = { at: NOON, releases: '', media: '', kept: new Set<never>(), lacking: new Set([small.reference]) };
    const documentChecks = { isRunning: false, last: { ...last, lackingChecks: 2 } };
    const { degraded } = seen({ localBlobs: without(), documentChecks }, active) ?? {};
    expect(textOf(degraded)).toContain("1 of 2 images and artifacts of ocp 4.13.7 can't be pulled again");
  });
});
