import { describe, expect, it } from 'vitest';
import type { RuntimeObservation } from '../../../../../src/domain/model/image.ts';
import { activationKey, pullCheckDue, pullToCheck } from '../../../../../src/domain/release/pulls.ts';
import type { PullCheck, PullCheckEnd } from '../../../../../src/domain/state/checks.ts';
import { NOON, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

type Reachable = Extract<RuntimeObservation, { kind: 'reachable' }>;

const release = stored(verified({ images: { etcd: ['base'], api: ['api'] } }), { readyAt: 1, activatedAt: 2 });
const runtime = (present: readonly string[], renderedMirrors: readonly string[]): Reachable => ({
  kind: 'reachable',
  name: 'fake 1',
  images: present.map((name) => ({
    imageId: name,
    repoTags: [],
    repoDigests: [referenceOf(name)],
    pinned: true,
  })),
  filesystem: undefined,
  renderedPins: [],
  renderedMirrors,
});
const both = runtime(['etcd', 'api'], ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd']);
const check = (over: Partial<PullCheck> = {}, end: PullCheckEnd = { kind: 'answered' }): PullCheck => ({
  activation: activationKey([release]),
  reference: referenceOf('etcd'),
  at: NOON,
  attempts: 1,
  end,
  ...over,
});
const due = (last: PullCheck | undefined, now = NOON, isRunning = false) =>
  pullCheckDue([release], both, { isRunning, last }, now);
const FAILED: PullCheckEnd = {
  kind: 'failed',
  isAsked: true,
  isSent: true,
  reason: { code: 'runtime/pull-failed', message: 'x' },
};

describe('pullToCheck', () => {
  it('takes the first image that is present and has a mirror', () => {
    expect(pullToCheck([release], both)).toEqual({ kind: 'image', reference: referenceOf('etcd') });
    const onlyApi = runtime(['etcd', 'api'], ['quay.example.com/ocp/api']);
    expect(pullToCheck([release], onlyApi)).toEqual({ kind: 'image', reference: referenceOf('api') });
    const present = runtime(['api'], ['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd']);
    expect(pullToCheck([release], present)).toEqual({ kind: 'image', reference: referenceOf('api') });
  });

  it('prefers the release that was activated last', () => {
    const tools = stored(verified({ name: 'tools', images: { cli: ['cli'] } }), { activatedAt: 9 });
    const seen = runtime(['etcd', 'cli'], ['quay.example.com/ocp/cli', 'quay.example.com/ocp/etcd']);
    expect(pullToCheck([release, tools], seen)).toEqual({ kind: 'image', reference: referenceOf('cli') });
  });

  it('says why there is none', () => {
    expect(pullToCheck([], both)).toEqual({ kind: 'nothing-activated' });
    expect(pullToCheck([{ ...release, retiredAt: 3 }], both)).toEqual({ kind: 'nothing-activated' });
    const back = { ...release, rolledBackAt: 3, rolledBackReason: 'it went back' };
    expect(pullToCheck([back], both)).toEqual({ kind: 'nothing-activated' });
    expect(pullToCheck([release], runtime([], []))).toEqual({ kind: 'nothing-present' });
    expect(pullToCheck([release], runtime(['api'], []))).toEqual({ kind: 'no-mirror', reference: referenceOf('api') });
  });
});

describe('pullCheckDue', () => {
  const now = (attempts: number) => ({
    kind: 'now',
    test: { activation: activationKey([release]), reference: referenceOf('etcd'), attempts },
  });

  it('is due after the start and after an activation, and not again once it was answered', () => {
    expect(due(undefined)).toEqual(now(1));
    expect(due(check({ activation: 'what was activated before' }))).toEqual(now(1));
    expect(due(check(), NOON + 10 ** 9)).toEqual({ kind: 'later', at: undefined });
    expect(due(undefined, NOON, true)).toEqual({ kind: 'later', at: undefined });
  });

  it('is made three times at most when it is not answered', () => {
    expect(due(check({}, FAILED), NOON)).toEqual({ kind: 'later', at: NOON + 5_000 });
    expect(due(check({}, FAILED), NOON + 5_000)).toEqual(now(2));
    expect(due(check({ attempts: 2 }, FAILED), NOON + 5_000)).toEqual({ kind: 'later', at: NOON + 30_000 });
    expect(due(check({ attempts: 2 }, FAILED), NOON + 30_000)).toEqual(now(3));
    expect(due(check({ attempts: 3 }, FAILED), NOON + 10 ** 9)).toEqual({ kind: 'later', at: undefined });
  });

  it('does not wait for a time that a clock which was set back has not reached', () => {
    expect(due(check({}, FAILED), NOON - 10 ** 9)).toEqual(now(2));
  });
});
