import { describe, expect, it } from 'vitest';
import { WAIT_GOALS } from '../../../../src/domain/fleet/turn.ts';
import { PHASES } from '../../../../src/domain/model/condition.ts';
import { type AwaitedRelease, advanceOf } from '../../../../src/domain/report/wait-goal.ts';

const kinds = (release: AwaitedRelease | undefined) =>
  WAIT_GOALS.map((goal) => advanceOf(release, goal).kind).join(' ');

describe('how far a release is from what is waited for', () => {
  it.each([
    // ready, activated, active, proven
    ['detected', {}, 'waiting waiting waiting waiting'],
    ['rejected', {}, 'ended ended ended ended'],
    ['held', { hold: 'space' }, 'waiting waiting waiting waiting'],
    ['preloading', {}, 'waiting waiting waiting waiting'],
    ['ready', {}, 'reached waiting waiting waiting'],
    ['activated', { current: true }, 'reached reached waiting waiting'],
    ['activated', { current: false }, 'reached ended ended ended'],
    ['active', { current: true }, 'reached reached reached waiting'],
    ['active', { current: false }, 'reached ended ended ended'],
    ['proven', { current: true }, 'reached reached reached reached'],
    ['proven', { current: false }, 'reached ended reached reached'],
    ['superseded', { current: false }, 'reached ended ended ended'],
    ['retired', {}, 'ended ended ended ended'],
  ] as const)('%s %j: %s', (phase, more, expected) => {
    expect(kinds({ phase, ...more })).toBe(expected);
  });

  it('knows every phase', () => {
    for (const { phase } of PHASES) expect(kinds({ phase })).not.toBe('');
  });

  it('waits for a release that is not on the node, and not for one without images', () => {
    expect(kinds(undefined)).toBe('waiting waiting waiting waiting');
    expect(kinds({})).toBe('ended ended ended ended');
  });

  it('ends with the reason of a rollback, but not for its images', () => {
    const reason = { code: 'engine/rolled-back', message: 'it was rolled back: containers of 4.13.6 run' };
    const release = { phase: 'active', current: true, reason } as const;
    expect(kinds(release)).toBe('reached ended ended ended');
    expect(advanceOf(release, 'proven')).toEqual({ kind: 'ended', reason });
  });

  it('counts no release as ready whose images were lost', () => {
    const lost = { type: 'Preloaded', status: 'False', reason: 'ImagesMissing', message: '' } as const;
    const conditions = [{ ...lost, lastTransitionTime: '2026-03-04T05:06:07.890Z' }];
    expect(advanceOf({ phase: 'proven', conditions }, 'ready').kind).toBe('waiting');
  });

  it('ends for a release that an administrator activates, with that as its reason', () => {
    const message = 'its schedule is "manual": an administrator activates it';
    const manual = { gate: 'schedule', code: 'engine/manual', message, releasedBy: 'person' } as const;
    const release = { phase: 'ready', activationHolds: [manual] } as const;
    expect(kinds(release)).toBe('reached ended ended ended');
    expect(advanceOf(release, 'activated')).toEqual({ kind: 'ended', reason: { code: 'engine/manual', message } });
  });

  it('says what a release waits for', () => {
    const hold = { gate: 'from', code: 'rule/from', message: 'only from 4.12', releasedBy: 'person' } as const;
    const state = (release: AwaitedRelease) => {
      const advance = advanceOf(release, 'activated');
      return advance.kind === 'waiting' ? advance.state : undefined;
    };
    expect(state({ phase: 'ready', activationHolds: [hold] })).toBe('is ready (activation held): only from 4.12');
    const reason = { code: 'engine/space', message: 'it needs 2 GiB more' };
    expect(state({ phase: 'held', hold: 'space', reason })).toBe('is held (space): it needs 2 GiB more');
    expect(state({ phase: 'preloading' })).toBe('is preloading');
  });
});
