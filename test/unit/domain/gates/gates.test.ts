import { describe, expect, it } from 'vitest';
import type { GateContext } from '../../../../src/domain/activation/gate.ts';
import { judgeGates } from '../../../../src/domain/activation/gates.ts';
import { NO_FLOORS } from '../../../../src/domain/adoption/floors.ts';
import { NO_HOOKS } from '../../../../src/domain/state/hook.ts';
import type { TaskFailure } from '../../../../src/domain/state/memory.ts';
import { FACTS, NOON, POLICY, pathWith, stored, verified } from '../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: NOON });
const other = verified({ name: 'other' });
const cancelled = { at: NOON, media: [] };
const activate = { kind: 'activate', bundleId: bundle.bundleId } as const;
const failed = (retryAt: number | undefined): TaskFailure => ({
  task: activate,
  attempts: 2,
  reason: { code: 'runtime/pull', message: 'x' },
  retryAt,
});
const context = (over: Partial<GateContext> = {}): GateContext => ({
  bundle,
  bundles: [bundle],
  imageUses: undefined,
  fleet: undefined,
  path: pathWith(),
  policy: POLICY,
  now: NOON,
  clockFault: undefined,
  facts: FACTS,
  clockSynchronised: true,
  withdrawn: undefined,
  absentImages: 0,
  floors: NO_FLOORS,
  hooks: NO_HOOKS,
  foreignTag: undefined,
  running: [],
  failures: [],
  ...over,
});
const ask = (over: Partial<GateContext> = {}) => judgeGates(context(over));
const floors = { ...NO_FLOORS, sequences: new Map([['ocp', 9]]) };

describe('the gates of an activation', () => {
  it('let a release pass that nothing holds', () => {
    expect(ask()).toEqual({ holds: [], checkAgainAt: undefined });
  });

  it.each<[when: string, over: Partial<GateContext>, hold: object, checkAgainAt?: number]>([
    [
      'its trust was withdrawn',
      { withdrawn: 'trust/key-revoked' },
      { gate: 'trust', code: 'trust/withdrawn', data: { reason: 'trust/key-revoked' }, releasedBy: 'person' },
    ],
    [
      'its preload was cancelled and images are missing',
      { bundle: { ...bundle, cancelled }, absentImages: 2 },
      {
        gate: 'cancellation',
        code: 'engine/cancelled',
        data: { absent: 2 },
        releasedBy: 'person',
        keepsDue: true,
      },
    ],
    [
      'a newer one was activated before',
      { floors },
      {
        gate: 'floor',
        code: 'engine/below-floor',
        data: { stream: 'ocp', sequence: 7, floor: 9 },
        releasedBy: 'person',
      },
    ],
    [
      'nobody knows what was activated before',
      { floors: { ...NO_FLOORS, areLost: true } },
      { gate: 'floor', code: 'engine/floor-unknown', data: { stream: 'ocp' }, releasedBy: 'person' },
    ],
    [
      'its schedule is manual',
      { bundle: stored(verified({ schedule: 'manual' })) },
      { gate: 'schedule', code: 'engine/manual', data: { by: 'release' }, releasedBy: 'person' },
    ],
    [
      'another release is being activated',
      { running: [{ kind: 'activate', bundleId: other.bundleId }] },
      {
        gate: 'tagsInMotion',
        code: 'engine/tags-in-motion',
        data: { bundleId: other.bundleId },
        releasedBy: 'event',
        keepsDue: true,
      },
    ],
    [
      'its activation failed and is tried again later',
      { failures: [failed(NOON + 1_000)] },
      {
        gate: 'retry',
        code: 'engine/activation-failed',
        data: { attempts: 2, reason: 'runtime/pull' },
        releasedBy: 'time',
        checkAgainAt: NOON + 1_000,
        keepsDue: true,
      },
      NOON + 1_000,
    ],
    [
      'its activation failed and waits for other media',
      { failures: [failed(undefined)] },
      {
        gate: 'retry',
        code: 'engine/activation-failed',
        data: { attempts: 2, reason: 'runtime/pull' },
        releasedBy: 'event',
        keepsDue: true,
      },
    ],
  ])('hold it when %s', (_when, over, hold, checkAgainAt) => {
    expect(ask(over)).toEqual({ holds: [hold], checkAgainAt });
  });

  it.each<[when: string, over: Partial<GateContext>]>([
    ['a cancelled preload has all its images', { bundle: { ...bundle, cancelled }, absentImages: 0 }],
    ['a person asked for a manual one', { bundle: requested({ schedule: 'manual' }) }],
    ['a person asked for one below the floor', { bundle: requested({}), floors }],
    ['it is being activated itself', { running: [activate] }],
    ['the pause after its failure is over', { failures: [failed(NOON)] }],
    ['it was activated', { bundle: { ...bundle, activatedAt: NOON }, withdrawn: 'trust/rejected' }],
  ])('let it pass when %s', (_when, over) => {
    expect(ask(over).holds).toEqual([]);
  });

  it('let a release below the floor pass where downgrades are allowed and it came last, and no other', () => {
    const policy = { ...POLICY, update: { ...POLICY.update, allow_downgrade: true } };
    const present = stored(verified({ version: '4.13.9', sequence: 9 }), { readyAt: 1, activatedAt: NOON - 10 });
    const holdsOf = (adoptedAt: number) => {
      const older = { ...bundle, adoptedAt };
      const bundles = [present, older];
      const path = pathWith(bundles, { policy });
      const { holds } = ask({ bundle: older, bundles, path, policy, floors });
      return holds.map(({ code }) => code);
    };
    expect(holdsOf(NOON - 5)).not.toContain('engine/below-floor');
    expect(holdsOf(NOON - 20)).toContain('engine/below-floor');
  });

  it('hold one that is asked for again after its activation', () => {
    const again = { ...bundle, activatedAt: NOON, activationRequestedAt: NOON + 1 };
    expect(ask({ bundle: again, withdrawn: 'trust/rejected' }).holds).toMatchObject([{ gate: 'trust' }]);
  });

  it('are all asked in their order, and the earliest time of a change counts', () => {
    const rollout = { start: new Date(NOON + 5_000).toISOString(), startPercentage: 1 };
    const update = { from: '1.x', rollout };
    const all = { ...stored(verified({ schedule: 'manual', update })), cancelled };
    const { holds, checkAgainAt } = ask({
      bundle: all,
      withdrawn: 'trust/approval',
      absentImages: 1,
      running: [{ kind: 'activate', bundleId: other.bundleId }],
      path: pathWith([stored(verified({ version: '4.13.6', sequence: 6 }), { activatedAt: 1 })]),
    });
    const gates = ['trust', 'cancellation', 'from', 'rollout', 'schedule', 'tagsInMotion'];
    expect(holds.map(({ gate }) => gate)).toEqual(gates);
    expect(checkAgainAt).toBe(NOON + 5_000);
  });
});

function requested(spec: Parameters<typeof verified>[0]) {
  return stored(verified(spec), { readyAt: NOON, activationRequestedAt: NOON });
}
