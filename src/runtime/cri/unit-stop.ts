import { AppError } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { UnitControl } from '../../ports/node.ts';
import { type Call, pullError } from './runtime-error.ts';

export interface UnitStop {
  /** `notify` is called for each change. */
  watch(notify: () => void): Unsubscribe;
  /** The unit that stops now. */
  unit(): string | undefined;
  /** Cancels a long call when a stop begins. @throws AppError `runtime/stopping` (`retry`) */
  guard<T>(call: Call<T>, signal: AbortSignal): Promise<T>;
}

/** A call may fail a moment before systemd's signal of the stop. */
const NOTICE_MS = 500;
/** The end of the stop was missed, as with a lost bus. systemd kills a unit after 90 s. */
const LONGEST_STOP_MS = 120_000;

export function createUnitStop(
  unitNames: readonly string[],
  { units, clock }: { readonly units: UnitControl; readonly clock: Clock },
): UnitStop {
  const calls = new Set<AbortController>();
  let stop: { readonly unit: string; readonly since: number } | undefined;

  const current = () =>
    stop !== undefined && clock.monotonic() - stop.since < LONGEST_STOP_MS ? stop.unit : undefined;
  const follow = (unit: string, activeState: string | undefined): void => {
    if (activeState === 'deactivating') {
      if (current() === undefined) stop = { unit, since: clock.monotonic() };
      for (const controller of calls) controller.abort(stopping(unit));
    } else if (activeState !== undefined && stop?.unit === unit) {
      stop = undefined;
    }
  };
  return {
    unit: current,
    watch: (notify) => {
      const ends = unitNames.map((unit) =>
        units.onUnitChange(unit, (activeState) => {
          follow(unit, activeState);
          notify();
        }),
      );
      return () => {
        for (const end of ends) end();
        stop = undefined;
      };
    },
    guard: async (call, signal) => {
      const unit = current();
      if (unit !== undefined) throw stopping(unit);
      const controller = new AbortController();
      calls.add(controller);
      const { signal: either, release } = linkSignals([signal, controller.signal]);
      try {
        return await call(either).catch(async (error: unknown) => {
          const isAway = error instanceof AppError && error.code === 'runtime/unreachable';
          if (isAway) await clock.sleep(NOTICE_MS, either).catch(() => undefined);
          throw controller.signal.aborted && !signal.aborted ? controller.signal.reason : error;
        });
      } finally {
        calls.delete(controller);
        release();
      }
    },
  };
}

function stopping(unit: string): AppError {
  return pullError('runtime/stopping', `${unit} is being stopped`);
}
