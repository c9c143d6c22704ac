import { describe, expect, it } from 'vitest';
import { keepPlan } from '../../../../src/domain/decide/pull-plan.ts';
import { keptLayers, unknownComponents } from '../../../../src/domain/preload/space.ts';
import { unknownComponentsText } from '../../../../src/domain/report/texts/release-text.ts';
import {
  allListed,
  found,
  judge,
  layer,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = stored(
  verified({
    images: { os: ['base', 'os'], etcd: ['base', 'etcd'] },
    imageOver: { os: { component: 'os' }, etcd: { component: 'etcd' } },
  }),
  { readyAt: NOON, activatedAt: NOON },
);
const keeping = (...keep_components: readonly string[]) => ({ ...POLICY.retention, keep_components });
const digests = (names: readonly string[]) => names.map((name) => layer(name).digest).sort();
const of = (layers: readonly { readonly digest: string }[]) => layers.map(({ digest }) => digest).sort();

describe('the layers that are kept on the disk of the node', () => {
  it('are those of the components that the settings name, also when other components share them', () => {
    expect(of(keptLayers(bundle, keeping('os')))).toEqual(digests(['base', 'os']));
    expect(keptLayers(bundle, keeping())).toEqual([]);
    expect(of(keptLayers(bundle, { ...POLICY.retention, blobs: 'kept' }))).toEqual(digests(['base', 'os', 'etcd']));
  });

  it('are wanted, and copied from a medium that has them', () => {
    const policy = { ...POLICY, retention: keeping('os') };
    const runtime = reachable({ images: allListed(bundle) });
    const observed = observation({ runtime, media: [medium('sdb1', [found(bundle)])] });
    const plan = keepPlan(observed, judge(observed, [bundle], policy).assessment, policy);
    expect([...(plan?.wanted ?? [])].sort()).toEqual(digests(['base', 'os']));
    expect(of(plan?.copy ?? [])).toEqual(digests(['base', 'os']));
  });

  it('are those that a kept delta left to its base, also once the base is retired', () => {
    const base = stored(verified({ version: '4.13.6', images: { old: ['base', 'old'] } }), {
      readyAt: NOON,
      retiredAt: NOON,
    });
    const images = { os: ['base', 'os'] };
    const delta = stored(verified({ images, layers: { base: { inBase: true } }, update: { base: base.bundleId } }), {
      readyAt: NOON,
      activatedAt: NOON,
    });
    const policy = { ...POLICY, retention: { ...POLICY.retention, blobs: 'kept' as const } };
    const observed = observation({ runtime: reachable({ images: allListed(delta) }) });
    const plan = keepPlan(observed, judge(observed, [base, delta], policy).assessment, policy);
    expect([...(plan?.wanted ?? [])].sort()).toEqual(digests(['base', 'os']));
  });

  it('names components that no release has, unless there is no release yet', () => {
    expect(unknownComponents([bundle], keeping('os', 'kernel', 'kernel'))).toEqual(['kernel']);
    expect(unknownComponents([], keeping('kernel'))).toEqual([]);
    expect(unknownComponentsText(['kernel'])).toMatch(/^retention\.keep_components names "kernel", which no image/);
  });
});
