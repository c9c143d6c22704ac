import { expect, it } from 'vitest';
import type { Assessment } from '../../../../src/domain/assess/assess.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import type { EffectContext } from '../../../../src/engine/effects/effect-context.ts';
import { keepForAdoptions } from '../../../../src/engine/effects/media-effects.ts';
import { Jobs, MediaJobs } from '../../../../src/engine/tasks/jobs.ts';
import { found, verified } from '../../../support/daemon/scenario.ts';
import { eventually } from '../../../support/eventually.ts';

it.each([
  ['of all bundles of a stick before the next round', 0, 300],
  ['for a second at a time, since each round judges the bundles again', 250, 4],
])('documents are kept %s', async (_what, msEach, expected) => {
  let nowMs = 0;
  const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  const bundles = Array.from({ length: 300 }, (_, n) => verified({ name: `app-${n}` }));
  const [first = verified()] = bundles;
  const kept: BundleId[] = [];
  let rounds = 0;
  const onEnd = () => {
    rounds += 1;
  };
  const mediaJobs = new MediaJobs(new Jobs(clock, onEnd), clock, onEnd);
  const signedBundles = {
    keep: async (bundleId: BundleId) => {
      kept.push(bundleId);
      nowMs += msEach;
    },
  };
  const context = { ports: { clock, signedBundles }, mediaJobs, keeping: new Map() };
  const adoptions = bundles.map((bundle) => ({
    mediumId: '7-sdb1',
    label: 'sdb1',
    found: found(bundle),
    isClaim: false,
  }));
  const effect = { kind: 'keep-documents', bundleId: first.bundleId, mediumId: '7-sdb1' } as const;
  keepForAdoptions(context as unknown as EffectContext, effect, { adoptions } as unknown as Assessment);
  await eventually(() => expect(rounds).toBe(1));
  expect(kept).toHaveLength(expected);
  expect([...context.keeping.keys()]).toEqual(kept);
});
