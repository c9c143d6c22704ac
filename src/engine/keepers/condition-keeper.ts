import type { Assessment } from '../../domain/assess/assess.ts';
import { type Condition, type ConditionMarks, conditionsOf, marksAfter } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { judgeConditions } from '../../domain/report/judge-conditions.ts';
import type { Memory } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import type { ConditionStore } from '../../ports/state.ts';

/** The conditions of each adopted release. */
export type Conditions = ReadonlyMap<BundleId, readonly Condition[]>;

/** Evaluates conditions, and stores since when each has its status. */
export interface ConditionKeeper {
  /**
   * Evaluates the conditions of one round. Writes only when a status changed, in one transaction.
   * Never throws.
   */
  follow(observed: Observed, memory: Memory, assessment: Assessment): Conditions;
}

/** Creates a keeper that continues with the stored times. */
export function createConditionKeeper({
  store,
  log,
}: {
  readonly store: ConditionStore;
  readonly log: Log;
}): ConditionKeeper {
  /**
   * Times that could not be stored yet. Without this map they would change every round while the
   * disk can't be written.
   */
  const unsaved = new Map<BundleId, ConditionMarks>();
  let isLogged = false;
  const save = (): void => {
    if (unsaved.size === 0) return;
    try {
      store.setConditions(unsaved);
      unsaved.clear();
      isLogged = false;
    } catch (error) {
      if (!isLogged) log.warn({ err: error }, `When conditions changed could not be kept: ${reasonOf(error)}`);
      isLogged = true;
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
