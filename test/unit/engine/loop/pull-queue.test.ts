import { describe, expect, it } from 'vitest';
import type { PullQueue } from '../../../../src/domain/preload/pull-schedule.ts';
import { RunningQueue } from '../../../../src/engine/loop/pace.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const pull = (reference: string) => ({
  reference,
  missingLayers: [],
  task: { kind: 'pull', bundleId: digestOf('bundle'), reference } as const,
});
const pullQueue: PullQueue = { waiting: [pull('b'), pull('c')], running: [pull('a')], landed: new Set(), parallel: 1 };

const starting = (...references: string[]) => ({ starts: references.map((one) => pull(one).task), needsRound: false });
const aRound = { starts: [], needsRound: true };
const nothingYet = { starts: [], needsRound: false };

describe('the queue of pulls', () => {
  it('starts the decided pulls one after another until a round must decide', () => {
    const runningQueue = new RunningQueue();
    runningQueue.begin();
    expect(runningQueue.decided(pullQueue)).toEqual(nothingYet);
    expect(runningQueue.after('a')).toEqual(starting('b'));
    expect(runningQueue.after('b')).toEqual(starting('c'));
    expect(runningQueue.after('c')).toEqual(aRound);
  });

  it('starts no next pull before the first decision, or after a round was requested', () => {
    const runningQueue = new RunningQueue();
    expect(runningQueue.after('a')).toEqual(aRound);
    runningQueue.begin();
    runningQueue.decided(pullQueue);
    runningQueue.stop();
    expect(runningQueue.after('a')).toEqual(aRound);
  });

  it('waits for the decision of a round that observes, then continues after the pulls that ended meanwhile', () => {
    const runningQueue = new RunningQueue();
    runningQueue.begin();
    expect(runningQueue.after('a')).toEqual(nothingYet);
    expect(runningQueue.decided(pullQueue)).toEqual(starting('b'));
    runningQueue.begin();
    expect(runningQueue.after('b')).toEqual(nothingYet);
    expect(runningQueue.decided(undefined)).toEqual(aRound);
  });

  it('does not start pulls that were decided on an outdated observation', () => {
    const runningQueue = new RunningQueue();
    runningQueue.begin();
    runningQueue.stop();
    expect(runningQueue.after('a')).toEqual(aRound);
    expect(runningQueue.decided(pullQueue)).toEqual(nothingYet);
    expect(runningQueue.after('a')).toEqual(aRound);
  });
});
