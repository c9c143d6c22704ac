import { areSameFloors, floorsNow, higherFloors, withoutDoubt, withoutStream } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/pin-ledger.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import type { EngineContext } from '../context.ts';
import { createFailureLog, type FailureLog } from '../reporting/failure-log.ts';

/**
 * Keeps the floors outside the database, so that they survive its loss. INVARIANT: one change at a
 * time; a floor never decreases but by a reset.
 */
export class FloorKeeper {
  private kept: Floors;
  private isWritten: boolean;
  private readonly failures: FailureLog;
  private readonly inTurn = oneAtATime();

  constructor(private readonly context: EngineContext) {
    this.kept = context.floors.load();
    this.isWritten = context.floors.isWhole();
    this.failures = createFailureLog(context.log);
  }

  /**
   * The current floors: for each stream the higher of the stored value and the value from its
   * bundles.
   */
  floors(): Floors {
    return floorsNow(this.kept, this.context.store.load().bundles);
  }

  /**
   * Stores the floors that follow from the bundles. A failure is logged once and tried again in the
   * next round; only an abort throws. @param isForgotten there is no pin ledger although the
   * runtime has pins of stickpin; if there are no floors either, they count as lost
   */
  reconcile(isForgotten: boolean, signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      try {
        const current = this.floors();
        const areLost = current.areLost || (isForgotten && current.sequences.size === 0);
        await this.save({ ...current, areLost }, signal);
        this.failures.succeeded();
      } catch (error) {
        signal.throwIfAborted();
        this.failures.failed(error);
      }
    });
  }

  /**
   * Raises the floor of a stream, durably. Takes no signal: the tags have already moved, and that
   * must be recorded. @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`)
   */
  raise(stream: string, sequence: number): Promise<void> {
    return this.inTurn(NEVER_ABORTED, () => {
      const current = this.floors();
      const raised = higherFloors(current, { ...current, sequences: new Map([[stream, sequence]]) });
      return this.save({ ...raised, ...withoutDoubt(raised, stream) }, NEVER_ABORTED);
    });
  }

  /**
   * Takes away the floors of a stream, durably, then calls `record`. When either fails, the floors
   * are as before. @throws AppError `store/…`
   */
  reset(stream: string, record: () => void): Promise<void> {
    return this.inTurn(NEVER_ABORTED, async () => {
      const before = this.floors();
      try {
        await this.save(withoutStream(before, stream), NEVER_ABORTED);
        record();
      } catch (error) {
        [this.kept, this.isWritten] = [before, false];
        throw error;
      }
    });
  }

  private async save(wanted: Floors, signal: AbortSignal): Promise<void> {
    if (this.isWritten && areSameFloors(wanted, this.kept)) return;
    this.kept = wanted;
    this.isWritten = false;
    await this.context.floors.save(wanted, signal);
    this.isWritten = true;
  }
}
