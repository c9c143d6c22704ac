import type { Assessment } from '../../domain/assess/assess.ts';
import { type Condition, type ConditionMarks, conditionsOf, marksAfter } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { judgeConditions } from '../../domain/report/judge-conditions.ts';
import type { Memory } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { EngineContext } from '../context.ts';

/** The conditions of each adopted release. */
export type Conditions = ReadonlyMap<BundleId, readonly Condition[]>;

/** Evaluates conditions, and stores since when each has its status. */
export class ConditionKeeper {
  /**
   * Times that could not be stored yet. Without this map they would change every round while the
   * disk can't be written.
   */
  private readonly unsaved = new Map<BundleId, ConditionMarks>();
  private isLogged = false;

  constructor(private readonly context: EngineContext) {}

  /**
   * Evaluates the conditions of one round. Writes only when a status changed, in one transaction.
   * Never throws.
   */
  follow(observed: Observed, memory: Memory, assessment: Assessment): Conditions {
    const { store } = this.context;
    const conditions = new Map<BundleId, readonly Condition[]>();
    for (const [{ bundle }, verdicts] of judgeConditions(observed, memory, assessment)) {
      const { bundleId } = bundle;
      const known = this.unsaved.get(bundleId) ?? store.conditions().get(bundleId) ?? {};
      const marks = marksAfter(known, verdicts, observed.now);
      if (marks !== known) this.unsaved.set(bundleId, marks);
      conditions.set(bundleId, conditionsOf(verdicts, marks));
    }
    this.save();
    return conditions;
  }

  private save(): void {
    if (this.unsaved.size === 0) return;
    try {
      this.context.store.setConditions(this.unsaved);
      this.unsaved.clear();
      this.isLogged = false;
    } catch (error) {
      const message = `When conditions changed could not be kept: ${reasonOf(error)}`;
      if (!this.isLogged) this.context.log.warn({ err: error }, message);
      this.isLogged = true;
    }
  }
}
