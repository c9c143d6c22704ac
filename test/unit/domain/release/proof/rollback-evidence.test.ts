import { describe, expect, it } from 'vitest';
import type { BundleId } from '../../../../../src/domain/model/digest.ts';
import type { RuntimeContainer } from '../../../../../src/domain/model/image.ts';
import { imageIds } from '../../../../../src/domain/release/evidence.ts';
import {
  isContainerCheckDue,
  rollbackOfProven,
  rollbackOfUnproven,
} from '../../../../../src/domain/release/rollback.ts';
import type { Soak } from '../../../../../src/domain/state/release-record.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  NOON,
  observation,
  POLICY,
  reachable,
  referenceOf,
  stored,
  storedState,
  verified,
} from '../../../../support/daemon/scenario.ts';
import { createModelStage } from '../../../../support/daemon/scenarios/model-stage.ts';
import { pass, plug, run } from '../../../../support/daemon/scenarios/table.ts';

const MINUTE_MS = 60_000;

const before = verified({
  sequence: 6,
  version: '4.13.6',
  images: { 'etcd-6': ['e6'], 'api-6': ['a6'] },
  imageOver: { 'etcd-6': { component: 'etcd' }, 'api-6': { component: 'api' } },
});
const fallback = stored(before, { readyAt: 1, activatedAt: 1, activeAt: 2, provenAt: 3 });
/** It has a component that the fallback has not. */
const release = verified({
  images: { 'etcd-7': ['e7'], 'api-7': ['a7'], 'dns-7': ['d7'] },
  imageOver: {
    'etcd-7': { component: 'etcd' },
    'api-7': { component: 'api' },
    'dns-7': { component: 'dns' },
  },
});
/** Since the boot in which it was proven. */
const soak: Soak = {
  activatedAt: 10,
  bootId: 'boot-1',
  components: ['etcd', 'api', 'dns'].map((component) => ({
    component,
    counts: true,
    runs: [{ key: component, containerId: component, startedAt: NOON, sinceMs: 5 }],
    failed: [],
    startedAt: NOON,
  })),
};
const proven = (over: Partial<StoredBundle> = {}) =>
  stored(release, { readyAt: 10, activatedAt: 10, activeAt: 11, provenAt: 12, soak, ...over });

const running = (name: string, over: Partial<RuntimeContainer> = {}): RuntimeContainer => ({
  containerId: name,
  key: name,
  attempt: 0,
  imageNames: [referenceOf(name)],
  state: 'running',
  startedAt: NOON + 1,
  exitCode: 0,
  ...over,
});
const BACK = [running('etcd-6'), running('api-6')];

function look(
  bundle: StoredBundle,
  containers: readonly RuntimeContainer[],
  { older = fallback, bootId = 'boot-1', uptimeMs = 100 * MINUTE_MS } = {},
) {
  const images = [...allListed(fallback), ...allListed(release)];
  const observed = observation({ runtime: reachable({ images }), containers, boot: { bootId, uptimeMs } });
  const state = storedState([older, bundle]);
  return rollbackOfProven(bundle, false, {
    observed,
    memory: observed,
    stored: state,
    policy: POLICY,
    containers,
    ids: imageIds(images),
    unclaimed: [],
    whole: new Set<BundleId>(),
    provable: new Set<BundleId>(),
  });
}

describe('the rollback of a proven release (docs/decisions/proof.md, "Rolled back")', () => {
  it('is recorded when all components that both releases have run from the fallback for a minute', () => {
    const first = look(proven(), BACK);
    expect(first).toMatchObject({ soak: { backSinceMs: 100 * MINUTE_MS }, findings: [], dueInMs: MINUTE_MS });
    const uptimeMs = 101 * MINUTE_MS;
    expect(look(proven({ soak: first?.soak ?? soak }), BACK, { uptimeMs })?.findings).toEqual([
      { kind: 'went-back', bundleId: release.bundleId, to: fallback.bundleId },
    ]);
  });

  it('starts its minute again after a boot', () => {
    const later = look(proven({ soak: { ...soak, backSinceMs: 5 } }), BACK, { bootId: 'boot-2', uptimeMs: 9_000_000 });
    expect(later).toMatchObject({ soak: { bootId: 'boot-2', backSinceMs: 9_000_000 }, dueInMs: MINUTE_MS });
  });

  it.each<[when: string, containers: readonly RuntimeContainer[], older?: StoredBundle]>([
    ['only some of its components run again', [running('api-6')]],
    ['one of them has ended', [running('api-6'), running('etcd-6', { state: 'exited' })]],
    ['they started before it did', BACK.map((one) => ({ ...one, startedAt: NOON - 1 }))],
    ['nothing runs at all', []],
    ['what runs again went back itself', BACK, { ...fallback, rolledBackAt: 5 }],
    ['what runs again was never activated', BACK, stored(before, { readyAt: 1 })],
  ])('is not recorded when %s', (_when, containers, older = fallback) => {
    const goingBack = proven({ soak: { ...soak, backSinceMs: 5 } });
    expect(look(goingBack, containers, { older })).toEqual({ soak, findings: [], dueInMs: undefined });
  });

  it('is not recorded while any container runs from the release', () => {
    const images = [...allListed(fallback), ...allListed(release)];
    const observed = observation({ runtime: reachable({ images }), containers: BACK });
    const state = storedState([fallback, proven()]);
    const context = {
      observed,
      memory: observed,
      stored: state,
      policy: POLICY,
      containers: BACK,
      ids: imageIds(images),
      unclaimed: [],
      whole: new Set<BundleId>(),
      provable: new Set<BundleId>(),
    };
    expect(rollbackOfProven(proven(), true, context)).toEqual({ soak, findings: [], dueInMs: undefined });
  });
});

describe('the rollback of a release that is not proven yet', () => {
  /** It has the image of api that the fallback has too. */
  const sharing = verified({
    images: { 'etcd-7': ['e7'], 'api-6': ['a6'] },
    imageOver: { 'etcd-7': { component: 'etcd' }, 'api-6': { component: 'api' } },
  });
  /** Nothing that is its own runs any more. */
  const seen: Soak = {
    activatedAt: 10,
    bootId: 'boot-1',
    components: [
      { component: 'etcd', counts: true, runs: [], failed: [], startedAt: NOON },
      { component: 'api', counts: false, runs: [], failed: [], startedAt: NOON },
    ],
  };
  const back = (...containers: readonly RuntimeContainer[]) => {
    const bundle = stored(sharing, { readyAt: 10, activatedAt: 10, activeAt: 11 });
    const images = [...allListed(fallback), ...allListed(sharing)];
    const boot = { bootId: 'boot-1', uptimeMs: 100 * MINUTE_MS };
    const observed = observation({ runtime: reachable({ images }), containers, boot });
    const ids = imageIds(images);
    const context = { observed, memory: observed, stored: storedState([fallback, bundle]), policy: POLICY };
    return rollbackOfUnproven(bundle, seen, {
      ...context,
      containers,
      ids,
      unclaimed: [],
      whole: new Set<BundleId>(),
      provable: new Set<BundleId>(),
    }).dueInMs;
  };

  it('begins when one component runs from an image that the fallback alone has', () => {
    expect(back(running('etcd-6'))).toBe(MINUTE_MS);
  });

  it.each<{ when: string; containers: readonly RuntimeContainer[] }>([
    { when: 'a component runs from an image that both have', containers: [running('api-6')] },
    {
      when: 'a container of the fallback is made but does not run',
      containers: [running('etcd-6', { state: 'other' })],
    },
    { when: 'it runs from an image of neither', containers: [running('dns-7')] },
  ])('does not begin when $when', ({ containers }) => {
    expect(back(...containers)).toBeUndefined();
  });
});

describe('evidence of a rollback beside a release that runs without activation', () => {
  it('counts first: only one of the two is activated in one round', async () => {
    const stage = createModelStage({ name: '', traits: { C: { schedule: 'manual' } }, rows: [] });
    stage.begin();
    const before = [plug('A'), run('A'), pass(12), plug('B'), run('B', 'etcd'), pass(12), plug('C')];
    for (const event of [...before, run('A', 'etcd'), run('C', 'api')]) await stage.play(event);
    const { effects, tags } = await stage.play(pass(2));
    expect(effects).toContain('record-rolled-back B to A');
    expect(effects).not.toContain('request-activation C');
    expect(tags).toBe('A');
    expect(await stage.play(pass(2))).toMatchObject({
      tags: 'C',
      phases: 'A superseded, B proven (rolled back), C active',
    });
  });
});

describe('isContainerCheckDue', () => {
  const due = (sinceListMs: number, bundles = [fallback, proven()], soakMs = 60 * MINUTE_MS) =>
    isContainerCheckDue(bundles, sinceListMs, { soak: soakMs });

  it('is true once in ten minutes or the soak time if that is shorter, and in each round during a rollback', () => {
    expect([9, 10].map((minutes) => due(minutes * MINUTE_MS))).toEqual([false, true]);
    expect(due(Number.POSITIVE_INFINITY)).toBe(true);
    expect([4, 5].map((seconds) => due(seconds * 1_000, undefined, 5_000))).toEqual([false, true]);
    expect(due(0, [fallback, proven({ soak: { ...soak, backSinceMs: 5 } })])).toBe(true);
  });

  it('is false without a fallback, or when the release was rolled back already', () => {
    const dueWith = (...bundles: StoredBundle[]) => due(Number.POSITIVE_INFINITY, bundles);
    expect(dueWith(proven())).toBe(false);
    expect(dueWith({ ...fallback, retiredAt: 20 }, proven())).toBe(false);
    expect(dueWith({ ...fallback, rolledBackAt: 5 }, proven())).toBe(false);
    expect(dueWith(fallback, proven({ rolledBackAt: 20 }))).toBe(false);
  });
});
