import { describe, expect, it } from 'vitest';
import type { RuntimeContainer } from '../../../../src/domain/model/image/runtime-container.ts';
import { imageIds } from '../../../../src/domain/release/proof/evidence.ts';
import { retirements } from '../../../../src/domain/release/retirement.ts';
import type { RunningTask } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  MIB,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
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
}

/** The versions that are retired while the next release is short of one MiB. */
function retired({ bundles, present = [oldest, fallback, good], running = [], containers = [] }: Scene) {
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
  };
  const findings = retirements(look, [{ bundle: next, lacking: { bytes: MIB, inodes: 0 } }]);
  return findings.flatMap((one) =>
    one.kind === 'spare' ? [bundles.find(({ bundleId }) => bundleId === one.bundleId)?.payload.version] : [],
  );
}

describe('releases that make room for the next one', () => {
  it('are the fallback, when nothing else is surplus', () => {
    expect(retired({ bundles: [fallback, good, next] })).toEqual(['4.13.2']);
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
    const activate = { kind: 'activate', bundleId: fallback.bundleId } as const;
    expect(retired({ bundles: [fallback, good, next], running: [activate] })).toEqual([]);
  });
});
