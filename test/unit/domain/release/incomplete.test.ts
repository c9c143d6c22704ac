import { describe, expect, it } from 'vitest';
import { lifecycleEffect } from '../../../../src/domain/decide/release-effects.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const bundle = verified();
const old = stored(bundle, { adoptedAt: NOON - 14 * DAY_MS });

/** The releases that are dropped. */
const dropped = (
  over: Partial<Scene> = {},
  bundles: readonly StoredBundle[] = [old],
  policy: Partial<Policy> = {},
): readonly string[] =>
  judge(observation(over), bundles, { ...POLICY, ...policy })
    .assessment.life.findings.filter(({ kind }) => kind === 'incomplete')
    .map(({ bundleId }) => bundleId);

describe('retention.incomplete', () => {
  it('gives up a release that was incomplete for 14 days, and not before', () => {
    expect(dropped()).toEqual([bundle.bundleId]);
    expect(dropped({ now: NOON - 1 })).toEqual([]);
  });

  it('goes by the clock of its own stream: a bundle of another one that is ahead changes nothing', () => {
    const other = stored(verified({ name: 'customer-x', created: '2099-01-01T00:00:00Z' }));
    expect(dropped({}, [old, other])).toEqual([bundle.bundleId]);
  });

  it('retires it, with its images as lifecycle.remove_images says', () => {
    const finding = { kind: 'incomplete', bundleId: bundle.bundleId } as const;
    expect(lifecycleEffect(finding, { remove_images: true })).toEqual({
      kind: 'retire',
      bundleId: bundle.bundleId,
      removeImages: true,
      isIncomplete: true,
    });
  });

  it.each<{ what: string; over?: Partial<Scene>; bundles?: readonly StoredBundle[]; policy?: Partial<Policy> }>([
    { what: 'its bundle is on a plugged medium', over: { media: [medium('sdb1', [found(bundle)])] } },
    { what: 'a medium is not read yet', over: { media: [medium('sdb1', { kind: 'mounted' })] } },
    { what: 'an image of it is being pulled', over: { running: [pullOf(bundle, 'etcd')] } },
    { what: 'the runtime does not answer', over: { runtime: { kind: 'unreachable', reason: 'gone' } } },
    { what: 'its images are all there', over: { runtime: reachable({ images: allListed(bundle) }) } },
    { what: 'it was ready before', bundles: [{ ...old, readyAt: NOON - DAY_MS }] },
    { what: 'a person asked for it', bundles: [{ ...old, activationRequestedAt: NOON }] },
    {
      what: 'its medium was seen less than 14 days ago, by the uptime',
      over: {
        boot: { bootId: 'boot-1', uptimeMs: 14 * DAY_MS },
        lastCarriers: new Map([
          [bundle.bundleId, { mediumId: '7-sdb1', label: 'sdb1', isDropFolder: false, seenMs: 1 }],
        ]),
      },
    },
    { what: 'it is retired', bundles: [{ ...old, retiredAt: NOON }] },
    {
      what: 'it is protected',
      policy: { lifecycle: { ...POLICY.lifecycle, protect: ['ocp@4.13.7'] } },
    },
    {
      what: 'a delta that is not complete builds on it',
      bundles: [old, stored(verified({ version: '4.13.8', sequence: 8, update: { base: bundle.bundleId } }))],
    },
    { what: 'the clock is behind the build', over: { facts: { ...observation().facts, builtAt: NOON + 1 } } },
    {
      what: 'the clock is behind its own stream',
      bundles: [old, stored(verified({ version: '4.13.8', sequence: 8, created: '2099-01-01T00:00:00Z' }))],
    },
    { what: 'the setting says so', policy: { retention: { ...POLICY.retention, incomplete: 'keep' } } },
  ])('keeps one when $what', ({ over, bundles, policy }) => {
    expect(dropped(over, bundles, policy)).toEqual([]);
  });
});
