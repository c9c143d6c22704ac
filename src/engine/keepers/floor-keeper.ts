import { areSameFloors, floorsFrom, higherFloors } from '../../domain/adoption/floors.ts';
import type { Floors } from '../../domain/state/floor-set.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import type { FloorStore, StateReader } from '../../ports/state.ts';

/** What {@link createFloorKeeper} works on. */
export interface FloorKeeperDependencies {
  readonly floors: FloorStore;
  readonly store: StateReader;
  readonly log: Log;
}

/** Keeps the floors beside the bundles that they come from. */
export interface FloorKeeper {
  /**
   * As they are now: what is remembered and what follows from the bundles, the higher value of
   * each.
   */
  floors(): Floors;
  /**
   * Remembers what follows from the bundles. `isForgotten`: the runtime has pins of ours though
   * nothing else remembers anything, so that floors are lost too. A failure is logged once and
   * tried again in the next round; only an abort throws.
   */
  follow(isForgotten: boolean, signal: AbortSignal): Promise<void>;
  /**
   * Raises the floor of a stream, durably. Takes no signal: tags have moved, which is to be
   * recorded whatever comes. @throws AppError `store/write`, `store/no-space`, `store/read-only`
   * (`retry`)
   */
  raise(stream: string, sequence: number): Promise<void>;
}

/**
 * A keeper that goes on with what is stored. INVARIANT: one change at a time; a floor never sinks.
 */
export function createFloorKeeper({ floors: kept, store, log }: FloorKeeperDependencies): FloorKeeper {
  let floors = kept.load();
  let isWritten = kept.isWhole();
  let trouble: string | undefined;
  let last: Promise<unknown> = Promise.resolve();

  const now = () => higherFloors(floors, floorsFrom(store.load().bundles));

  async function save(wanted: Floors): Promise<void> {
    if (isWritten && areSameFloors(wanted, floors)) return;
    floors = wanted;
    isWritten = false;
    await kept.save(wanted);
    isWritten = true;
  }

  const exclusively = (work: () => Promise<void>): Promise<void> => {
    const result = last.then(work);
    last = result.catch(() => undefined); // whoever asked for it hears of its error
    return result;
  };

  return {
    floors: now,
    raise: (stream, sequence) =>
      exclusively(() => save(higherFloors(now(), { ...floors, sequences: new Map([[stream, sequence]]) }))),
    follow: (isForgotten, signal) =>
      exclusively(async () => {
        signal.throwIfAborted();
        try {
          const current = now();
          const areLost = current.areLost || (isForgotten && current.sequences.size === 0);
          await save({ ...current, areLost });
          trouble = undefined;
        } catch (error) {
          const reason = reasonOf(error);
          if (reason !== trouble) log.warn({ err: error }, `${reason}. It is tried again by itself`);
          trouble = reason;
        }
      }),
  };
}
