import { areSameFloors, floorsNow, higherFloors, withoutDoubt, withoutStream } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/floor-set.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/one-at-a-time.ts';
import type { Log } from '../../platform/log.ts';
import type { FloorStore, StateReader } from '../../ports/state.ts';
import { createFailureLog } from '../reporting/failure-log.ts';

/** The adapters of {@link createFloorKeeper}. */
export interface FloorKeeperDependencies {
  readonly floors: FloorStore;
  readonly store: StateReader;
  readonly log: Log;
}

/** Keeps the floors outside the database, so that they survive its loss. */
export interface FloorKeeper {
  /**
   * The current floors: for each stream the higher of the stored value and the value from its
   * bundles.
   */
  floors(): Floors;
  /**
   * Stores the floors that follow from the bundles. A failure is logged once and tried again in the
   * next round; only an abort throws. @param isForgotten there is no pin ledger although the
   * runtime has pins of stickpin; if there are no floors either, they count as lost
   */
  follow(isForgotten: boolean, signal: AbortSignal): Promise<void>;
  /**
   * Raises the floor of a stream, durably. Takes no signal: the tags have already moved, and that
   * must be recorded. @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`)
   */
  raise(stream: string, sequence: number): Promise<void>;
  /**
   * Takes away the floors of a stream, durably, then calls `record`. When either fails, the floors
   * are as before. @throws AppError `store/…`
   */
  reset(stream: string, record: () => void): Promise<void>;
}

/**
 * Creates a keeper that continues with the stored floors. INVARIANT: one change at a time; a floor
 * never decreases but by a reset.
 */
export function createFloorKeeper({ floors: kept, store, log }: FloorKeeperDependencies): FloorKeeper {
  let floors = kept.load();
  let isWritten = kept.isWhole();
  const failures = createFailureLog(log);
  const inTurn = oneAtATime();

  const now = () => floorsNow(floors, store.load().bundles);

  async function save(wanted: Floors, signal: AbortSignal): Promise<void> {
    if (isWritten && areSameFloors(wanted, floors)) return;
    floors = wanted;
    isWritten = false;
    await kept.save(wanted, signal);
    isWritten = true;
  }

  return {
    floors: now,
    raise: (stream, sequence) =>
      inTurn(NEVER_ABORTED, () => {
        const raised = higherFloors(now(), { ...now(), sequences: new Map([[stream, sequence]]) });
        return save({ ...raised, ...withoutDoubt(raised, stream) }, NEVER_ABORTED);
      }),
    reset: (stream, record) =>
      inTurn(NEVER_ABORTED, async () => {
        const before = now();
        try {
          await save(withoutStream(before, stream), NEVER_ABORTED);
          record();
        } catch (error) {
          [floors, isWritten] = [before, false];
          throw error;
        }
      }),
    follow: (isForgotten, signal) =>
      inTurn(signal, async () => {
        try {
          const current = now();
          const areLost = current.areLost || (isForgotten && current.sequences.size === 0);
          await save({ ...current, areLost }, signal);
          failures.succeeded();
        } catch (error) {
          signal.throwIfAborted();
          failures.failed(error);
        }
      }),
  };
}
