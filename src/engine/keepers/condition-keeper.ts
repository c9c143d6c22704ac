import type { Assessment } from '../../domain/assess/assess.ts';
import { type Condition, type ConditionMarks, conditionsOf, marksAfter } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { judgeConditions } from '../../domain/report/judge-conditions.ts';
import type { Memory } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import type { ConditionStore } from '../../ports/state.ts';

/** The conditions of every adopted release, by bundle. */
export type Conditions = ReadonlyMap<BundleId, readonly Condition[]>;

/** Judges conditions and keeps since when each has its status. */
export interface ConditionKeeper {
  /**
   * Of one round. Writes only when a status changed, all of a round in one transaction. Never
   * throws.
   */
  follow(observed: Observed, memory: Memory, assessment: Assessment): Conditions;
}

/** A keeper that goes on with the stored times. */
export function createConditionKeeper({
  store,
  log,
}: {
  readonly store: ConditionStore;
  readonly log: Log;
}): ConditionKeeper {
  /**
   * What could not be stored yet: without it, a disk that takes no writes would move the times each
   * round.
   */
  const unsaved = new Map<BundleId, ConditionMarks>();
  let isTold = false;
  const save = (): void => {
    if (unsaved.size === 0) return;
    try {
      store.setConditions(unsaved);
      unsaved.clear();
      isTold = false;
    } catch (error) {
      if (!isTold) log.warn({ err: error }, `When conditions changed could not be kept: ${reasonOf(error)}`);
      isTold = true;
    }
  };
  return {
    follow: (observed, memory, assessment) => {
      const conditions = new Map<BundleId, readonly Condition[]>();
      for (const [{ bundle }, verdicts] of judgeConditions(observed, memory, assessment)) {
        const { bundleId } = bundle;
        const known = unsaved.get(bundleId) ?? store.conditions().get(bundleId) ?? {};
        const marks = marksAfter(known, verdicts, observed.now);
        if (marks !== known) unsaved.set(bundleId, marks);
        conditions.set(bundleId, conditionsOf(verdicts, marks));
      }
      save();
      return conditions;
    },
  };
}
