import { describe, expect, it } from 'vitest';
import type { ConditionMarks } from '../../../../src/domain/model/condition.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import { ConditionKeeper } from '../../../../src/engine/keepers/state-keepers.ts';
import type { StateStore } from '../../../../src/ports/state.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  reachable,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { createFakeNode } from '../../../support/fake-ports.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const bundle = verified();
const adopted = stored(bundle);
const complete = { runtime: reachable({ images: allListed(bundle) }) };

function setUp() {
  const log = createRecordingLog();
  const disk = { isFull: false, writes: 0, marks: new Map<BundleId, ConditionMarks>() };
  const store = {
    conditions: () => disk.marks,
    setConditions: (changed: ReadonlyMap<BundleId, ConditionMarks>) => {
      if (disk.isFull) throw new Error('database or disk is full');
      disk.writes += 1;
      disk.marks = new Map([...disk.marks, ...changed]);
    },
  };
  let keeper = new ConditionKeeper(store as unknown as StateStore, log);
  return {
    log,
    disk,
    restart: () => {
      keeper = new ConditionKeeper(store as unknown as StateStore, log);
    },
    /** Since when each condition has its status, in seconds after noon. */
    round: (seconds: number, over: Partial<Scene> = {}) => {
      const observed = observation({ now: NOON + seconds * 1_000, ...over });
      const conditions =
        keeper
          .follow({ observed, memory: observed, assessment: judge(observed, [adopted]).assessment })
          .get(bundle.bundleId) ?? [];
      return Object.fromEntries(
        conditions.map(({ type, lastTransitionTime }) => [type, (Date.parse(lastTransitionTime) - NOON) / 1_000]),
      );
    },
  };
}

describe('lastTransitionTime', () => {
  it('changes only with the status, and survives a restart; a round without a change writes nothing', () => {
    const { round, restart, disk } = setUp();
    expect(new Set(Object.values(round(0)))).toEqual(new Set([0]));
    expect(disk.writes).toBe(1);
    round(30);
    round(60);
    restart();
    expect(new Set(Object.values(round(90)))).toEqual(new Set([0]));
    expect(disk.writes).toBe(1);
    expect(round(120, complete)).toMatchObject({ Verified: 0, Preloaded: 120, Pinned: 120, Degraded: 0 });
    restart();
    expect(round(150, complete)).toMatchObject({ Verified: 0, Preloaded: 120, Pinned: 120 });
    expect(disk.writes).toBe(2);
  });

  it('keeps times in memory while they can not be written, logs that once, and writes them later', () => {
    const { round, disk, log } = setUp();
    disk.isFull = true;
    round(0);
    expect(round(30)).toMatchObject({ Verified: 0, Preloaded: 0 });
    expect(log.lines).toHaveLength(1);
    disk.isFull = false;
    round(60);
    expect(disk.marks.get(bundle.bundleId)?.Verified).toEqual({ status: 'True', since: NOON });
  });
});

it('the report of the engine has the conditions of each adopted release', async () => {
  const node = createFakeNode();
  await node.start();
  node.plug('sdb1', bundle);
  await node.clock.advance(0);
  const conditions = node.engine.report()?.bundles[0]?.conditions ?? [];
  expect(conditions).toContainEqual({
    type: 'Preloaded',
    status: 'True',
    reason: 'AllImagesPresent',
    message: '2 of 2 images present',
    lastTransitionTime: new Date(NOON).toISOString(),
  });
  const before = node.store.conditionWrites;
  await node.clock.advance(300_000);
  expect(node.store.conditionWrites).toBe(before);
  expect(node.engine.report()?.bundles[0]?.conditions).toEqual(conditions);
  await node.stop();
});
