import { describe, expect, it } from 'vitest';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import { createPace, underWayMs } from '../../../../src/engine/loop/pace.ts';

const bundleId = `sha256:${'0'.repeat(64)}` as BundleId;
const record: Effect = { kind: 'record-ready', bundleId };
const resume: Effect = { kind: 'resume-preload', bundleId };
const mount: Effect = { kind: 'mount-medium', mediumId: 'a' };
const end = { failed: false, wasRunning: false, latestMs: 30_000, now: 1_000 };
const nothing = { effects: [], wakeAt: undefined };

describe('pace', () => {
  it('continues at once after successful effects', () => {
    const pace = createPace();
    expect(pace({ effects: [record], wakeAt: undefined }, end)).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(pace({ effects: [resume], wakeAt: undefined }, end)).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('waits until the next due time, at most the given time', () => {
    const pace = createPace();
    expect(pace(nothing, end)).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(pace({ ...nothing, wakeAt: 1_250 }, end)).toEqual({ atLeastMs: 0, atMostMs: 250 });
    expect(pace({ ...nothing, wakeAt: 999_999 }, end)).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(pace({ ...nothing, wakeAt: 500 }, end)).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('waits for the end of running tasks, and pauses when that did not help', () => {
    const pace = createPace();
    const beside = { effects: [mount], wakeAt: undefined };
    expect(pace(beside, end)).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(pace(beside, end)).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
    expect(pace({ effects: [mount, record], wakeAt: undefined }, end)).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('waits for the end of the tasks that it started while others run', () => {
    const pace = createPace();
    const start = (reference: string): Effect => ({
      kind: 'start',
      task: { kind: 'pull', bundleId, reference },
    });
    const under = { ...end, wasRunning: true };
    expect(pace({ effects: [start('a')], wakeAt: undefined }, end)).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(pace({ effects: [start('b')], wakeAt: 1_250 }, under)).toEqual({ atLeastMs: 0, atMostMs: 250 });
    expect(pace({ effects: [start('c'), record], wakeAt: undefined }, under)).toEqual({
      atLeastMs: 0,
      atMostMs: 0,
    });
  });

  it('pauses longer after each failure, at least a second, and starts again after a good round', () => {
    const pace = createPace();
    const fail = () => pace({ effects: [record], wakeAt: undefined }, { ...end, failed: true });
    const totals = Array.from({ length: 7 }, () => {
      const { atLeastMs, atMostMs } = fail();
      expect(atLeastMs).toBe(1_000);
      return atLeastMs + atMostMs;
    });
    expect(totals).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    pace(nothing, end);
    expect(fail()).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
  });

  it('pauses when the same effects are decided again, since they did not help', () => {
    const pace = createPace();
    const same = () => pace({ effects: [record], wakeAt: undefined }, end);
    expect(same()).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(same()).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
    expect(same()).toEqual({ atLeastMs: 1_000, atMostMs: 1_000 });
  });
});

describe('underWayMs', () => {
  it('is a second after a quick look, longer after one that took long, and ten seconds at most', () => {
    expect([0, 6, 30].map(underWayMs)).toEqual([1_000, 1_000, 1_000]);
    expect([60, 240].map(underWayMs)).toEqual([2_000, 8_000]);
    expect([300, 60_000].map(underWayMs)).toEqual([10_000, 10_000]);
  });
});
