import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isThrottled, type Rollout, throttleAt, turnOf } from '../../../../src/domain/model/rollout.ts';

const MINUTE = 60_000;
const START = Date.parse('2026-03-10T12:00:00Z');
const start = '2026-03-10T12:00:00Z';
const hour: Rollout = { start, durationMinutes: 60 };
const fraction: Rollout = { start, durationMinutes: 60, startPercentage: 0.2 };
const still: Rollout = { start, startPercentage: 0.25 };

describe('the throttle of a rollout', () => {
  it.each<[string, Rollout, number, number]>([
    ['before the start', hour, START - 1, 0],
    ['before the start, whatever the fraction', fraction, START - 1, 0],
    ['at the start', hour, START, 0],
    ['at the start, with a fraction', fraction, START, 0.2],
    ['in the middle', hour, START + 30 * MINUTE, 0.5],
    ['in the middle, with a fraction', fraction, START + 30 * MINUTE, 0.6],
    ['at a quarter, with a fraction', fraction, START + 15 * MINUTE, 0.4],
    ['a millisecond before the end', hour, START + 60 * MINUTE - 1, 1 - 1 / (60 * MINUTE)],
    ['at the end', hour, START + 60 * MINUTE, 1],
    ['long after the end', fraction, START + 10_000 * MINUTE, 1],
    ['without a duration, before the start', still, START - 1, 0],
    ['without a duration, at the start', still, START, 0.25],
    ['without a duration, for ever', still, START + 1e12, 0.25],
    ['without a duration and a fraction', { start }, START + 1e12, 0],
    ['with a fraction of 1 and no duration', { start, startPercentage: 1 }, START, 1],
    ['without a start: since 1970', { startPercentage: 0.5 }, START, 0.5],
    ['without a start, with a duration: it is over', { durationMinutes: 60 }, START, 1],
    ['without anything', {}, START, 0],
    ['of one minute, in its middle', { start, durationMinutes: 1 }, START + MINUTE / 2, 0.5],
  ])('%s', (_, rollout, time, throttle) => {
    expect(throttleAt(rollout, time)).toBeCloseTo(throttle, 12);
  });

  it.each<[string, Rollout, number, number, boolean]>([
    ['wariness 0 never waits, not even before the start', hour, 0, START - 1, false],
    ['wariness 0 does not wait for a rollout that never begins to grow', {}, 0, START, false],
    ['wariness 1 waits until the end', hour, 1, START + 60 * MINUTE - 1, true],
    ['wariness 1 does not wait at the end', hour, 1, START + 60 * MINUTE, false],
    ['wariness equal to the throttle does not wait', hour, 0.5, START + 30 * MINUTE, false],
    ['wariness above the throttle waits', hour, 0.500001, START + 30 * MINUTE, true],
    ['wariness equal to the fraction does not wait at the start', still, 0.25, START, false],
    ['wariness above the fraction waits for ever without a duration', still, 0.26, START + 1e12, true],
    ['the least hashed wariness waits at the start', hour, 1e-6, START, true],
  ])('%s', (_, rollout, wariness, time, throttled) => {
    expect(isThrottled(rollout, wariness, time)).toBe(throttled);
  });
});

describe('the turn of a node', () => {
  it.each<[string, Rollout, number, number | undefined]>([
    ['wariness 0: always', hour, 0, Number.NEGATIVE_INFINITY],
    ['wariness 1: the end', hour, 1, START + 60 * MINUTE],
    ['the middle', hour, 0.5, START + 30 * MINUTE],
    ['with a fraction, below it: the start', fraction, 0.1, START],
    ['with a fraction, at it: the start', fraction, 0.2, START],
    ['with a fraction, above it', fraction, 0.6, START + 30 * MINUTE],
    ['without a duration, below the fraction', still, 0.25, START],
    ['without a duration, above the fraction: never', still, 0.26, undefined],
    ['with a fraction of 1: the start', { start, startPercentage: 1 }, 1, START],
    ['the least hashed wariness: after the millionth part', hour, 1e-6, START + 4],
  ])('%s', (_, rollout, wariness, turn) => {
    expect(turnOf(rollout, wariness)).toBe(turn);
  });

  it('never comes when a rollout ends after the last time that a clock can show', () => {
    const endless: Rollout = { start, durationMinutes: Number.MAX_SAFE_INTEGER };
    expect(turnOf(endless, 1)).toBeUndefined();
    expect(turnOf(endless, 1e-9)).toBeGreaterThan(START);
  });

  it('is the first millisecond at which the node does not wait', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    const rollouts = fc.record({
      start: fc
        .date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true })
        .map((date) => date.toISOString()),
      durationMinutes: fc.integer({ min: 1, max: 527_040 }),
      startPercentage: share,
    });
    fc.assert(
      fc.property(rollouts, share, (rollout, wariness) => {
        fc.pre(wariness > 0);
        const turn = turnOf(rollout, wariness) ?? Number.NaN;
        expect([isThrottled(rollout, wariness, turn), isThrottled(rollout, wariness, turn - 1)]).toEqual([false, true]);
      }),
    );
  });
});
