import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Decided, EngineContext } from '../../../../src/engine/context.ts';
import { HookKeeper } from '../../../../src/engine/keepers/hook-keeper.ts';
import { Jobs } from '../../../../src/engine/tasks/jobs.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { POLICY } from '../../../support/daemon/scenario.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const UNIT = 'lights.service';

it('starts a unit that waited for its own end, also in a round that ends at the same time', async () => {
  let rounds = 0;
  const jobs = new Jobs(systemClock, () => {
    rounds += 1;
  });
  const started: string[] = [];
  let endRun: () => void = () => undefined;
  let endSave: () => void = () => undefined;
  const context = {
    clock: systemClock,
    jobs,
    log: createRecordingLog(),
    recorder: { record: () => undefined },
    policy: { ...POLICY, hooks: { ...POLICY.hooks, plugged: UNIT } },
    trust: { revocations: () => ({ keyIds: [], revocationsUnreadable: false }) },
    store: { load: () => ({ bundles: [] }) },
    hookStore: {
      load: () => new Map([['plugged', { unit: UNIT, done: new Map() }]]),
      save: () => new Promise<void>((resolve) => (endSave = resolve)),
    },
    hookRunner: {
      run: (_unit: string, environment: string) => {
        started.push(environment);
        return new Promise<undefined>((resolve) => (endRun = () => resolve(undefined)));
      },
    },
  };
  const keeper = new HookKeeper(context as unknown as EngineContext, () => new Map());
  const event = (medium: string) => ({ hook: 'plugged', key: medium, medium }) as const;
  const events = new Map([['plugged', [event('sdb1'), event('sdc1')]]] as const);
  const decided = { observed: { facts: {} }, conditions: new Map() } as unknown as Decided;
  keeper.follow(events);
  await turn();
  endRun();
  await turn();
  // A round waits for the same write as the end of the unit.
  const round = keeper.reconcile(decided, new AbortController().signal).then(() => keeper.follow(events));
  await turn();
  endSave();
  await round;
  await turn();
  expect(rounds).toBeGreaterThan(0);
  keeper.follow(events);
  await turn();
  expect(started.map((text) => /STICKPIN_MEDIUM="(.*)"/.exec(text)?.[1])).toEqual(['sdb1', 'sdc1']);
});
