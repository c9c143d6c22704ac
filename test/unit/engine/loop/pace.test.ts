import { describe, expect, it } from 'vitest';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import type { Fault } from '../../../../src/domain/model/reason.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import { Pace, underWayMs } from '../../../../src/engine/loop/pace.ts';

const bundleId = `sha256:${'0'.repeat(64)}` as BundleId;
const record: Effect = { kind: 'record-ready', bundleId };
const resume: Effect = { kind: 'resume-preload', bundleId };
const mount: Effect = { kind: 'mount-medium', mediumId: 'a' };
const mirrors: Effect = { kind: 'apply-mirrors', repositories: [] };
const FAULT: Fault = { code: 'runtime/write', message: '/etc is read-only' };

/** Rounds at times that a test sets. */
function createRounds() {
  let now = 1_000;
  const pace = new Pace({ now: () => now, monotonic: () => now });
  const about = { wasRunning: false, latestMs: 30_000 };
  return {
    pass: (ms: number) => {
      now += ms;
    },
    /** Makes a round whose effects of these kinds fail. */
    round: (effects: readonly Effect[], { fails = [] as Effect['kind'][], wakeAt = 0, wasRunning = false } = {}) => {
      const due = pace.due(effects);
      const executed = new Map(due.effects.map((effect) => [effect, fails.includes(effect.kind) ? FAULT : undefined]));
      const pause = pace.after({ effects, wakeAt: wakeAt || undefined }, { ...about, wasRunning, executed });
      return { due: due.effects, obstacle: due.obstacle, pause };
    },
  };
}

describe('pace', () => {
  it('continues at once after successful effects', () => {
    const { round } = createRounds();
    expect(round([record]).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(round([resume]).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('waits until the next due time, at most the given time', () => {
    const { round } = createRounds();
    expect(round([]).pause).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(round([], { wakeAt: 1_250 }).pause).toEqual({ atLeastMs: 0, atMostMs: 250 });
    expect(round([], { wakeAt: 999_999 }).pause).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(round([], { wakeAt: 500 }).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('waits for the end of running tasks, and pauses when that did not help', () => {
    const { round } = createRounds();
    expect(round([mount]).pause).toEqual({ atLeastMs: 0, atMostMs: 30_000 });
    expect(round([mount]).pause).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
    expect(round([mount, record])).toMatchObject({ due: [record], pause: { atLeastMs: 0, atMostMs: 0 } });
  });

  it('waits for the end of the tasks that it started while others run', () => {
    const { round } = createRounds();
    const start = (reference: string): Effect => ({ kind: 'start', task: { kind: 'pull', bundleId, reference } });
    expect(round([start('a')]).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(round([start('b')], { wakeAt: 1_250, wasRunning: true }).pause).toEqual({ atLeastMs: 0, atMostMs: 250 });
    expect(round([start('c'), record], { wasRunning: true }).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
  });

  it('pauses longer after each failure, whatever asks for rounds, and not after a success', () => {
    const { round, pass } = createRounds();
    const pauses: number[] = [];
    for (let tries = 0; tries < 7; tries += 1) {
      const { atLeastMs, atMostMs } = round([mirrors], { fails: ['apply-mirrors'] }).pause;
      expect(atLeastMs).toBe(1_000);
      pauses.push(atLeastMs + atMostMs);
      pass(atLeastMs + atMostMs - 1);
      expect(round([mirrors])).toEqual({ due: [], obstacle: FAULT, pause: { atLeastMs: 0, atMostMs: 1 } });
      pass(1);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    expect(round([mirrors]).due).toEqual([mirrors]);
    round([]);
    expect(round([mirrors], { fails: ['apply-mirrors'] }).pause).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
  });

  it('remembers a failure while the effect is not wanted for a moment, and forgets it afterwards', () => {
    const { round, pass } = createRounds();
    const fail = () => round([mirrors], { fails: ['apply-mirrors'] });
    fail();
    pass(1_000);
    fail();
    round([]);
    expect(round([mirrors]).due).toEqual([]);
    pass(2_000);
    round([]);
    expect(fail().pause).toEqual({ atLeastMs: 1_000, atMostMs: 3_000 });
    pass(8_000);
    round([]);
    expect(fail().pause).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
  });

  it('delays no other effect, and pins make their own reload while the mirrors wait', () => {
    const { round } = createRounds();
    const pins: Effect = { kind: 'apply-pins', references: [], unpinned: '', force: false };
    round([mirrors], { fails: ['apply-mirrors'] });
    const { due, pause } = round([{ ...pins, mirrorsFollow: true }, mirrors]);
    expect([due, pause]).toEqual([[pins], { atLeastMs: 0, atMostMs: 0 }]);
  });

  it('pauses when the same effects are decided again, since they did not help', () => {
    const { round, pass } = createRounds();
    expect(round([record]).pause).toEqual({ atLeastMs: 0, atMostMs: 0 });
    expect(round([record]).pause).toEqual({ atLeastMs: 1_000, atMostMs: 0 });
    pass(1_000);
    expect(round([record]).pause).toEqual({ atLeastMs: 1_000, atMostMs: 1_000 });
  });
});

describe('underWayMs', () => {
  it('is a second after a quick look, longer after one that took long, and ten seconds at most', () => {
    expect([0, 6, 30].map(underWayMs)).toEqual([1_000, 1_000, 1_000]);
    expect([60, 240].map(underWayMs)).toEqual([2_000, 8_000]);
    expect([300, 60_000].map(underWayMs)).toEqual([10_000, 10_000]);
  });
});
