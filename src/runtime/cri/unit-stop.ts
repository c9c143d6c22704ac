import { AppError } from '../../platform/app-error.ts';
import { linkSignals } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { UnitControl } from '../../ports/node.ts';
import { type Call, pullError } from './runtime-error.ts';

/** A call may fail a moment before systemd's signal of the stop. */
const NOTICE_MS = 500;
/** The end of the stop was missed, as with a lost bus. systemd kills a unit after 90 s. */
const LONGEST_STOP_MS = 120_000;

/** Whether a unit of the runtime is being stopped. */
export class UnitStop {
  private readonly calls = new Set<AbortController>();
  private stop: { readonly unit: string; readonly since: number } | undefined;

  constructor(
    private readonly unitNames: readonly string[],
    private readonly units: UnitControl,
    private readonly clock: Clock,
  ) {}

  /** The unit that stops now. */
  unit(): string | undefined {
    const { stop, clock } = this;
    return stop !== undefined && clock.monotonic() - stop.since < LONGEST_STOP_MS ? stop.unit : undefined;
  }

  /** Calls `notify` for each change. It has one caller at a time. */
  watch(notify: () => void): Unsubscribe {
    const ends = this.unitNames.map((unit) =>
      this.units.onUnitChange(unit, (activeState) => {
        this.follow(unit, activeState);
        notify();
      }),
    );
    return () => {
      for (const end of ends) end();
      this.stop = undefined;
    };
  }

  /** Cancels a long call when a stop begins. @throws AppError `runtime/stopping` (`retry`) */
  async guard<T>(call: Call<T>, signal: AbortSignal): Promise<T> {
    const unit = this.unit();
    if (unit !== undefined) throw stopping(unit);
    const controller = new AbortController();
    this.calls.add(controller);
    const { signal: either, release } = linkSignals([signal, controller.signal]);
    try {
      return await call(either).catch(async (error: unknown) => {
        const isAway = error instanceof AppError && error.code === 'runtime/unreachable';
        if (isAway) await this.clock.sleep(NOTICE_MS, either).catch(() => undefined);
        throw controller.signal.aborted && !signal.aborted ? controller.signal.reason : error;
      });
    } finally {
      this.calls.delete(controller);
      release();
    }
  }

  private follow(unit: string, activeState: string | undefined): void {
    if (activeState === 'deactivating') {
      if (this.unit() === undefined) this.stop = { unit, since: this.clock.monotonic() };
      for (const controller of this.calls) controller.abort(stopping(unit));
    } else if (activeState !== undefined && this.stop?.unit === unit) {
      this.stop = undefined;
    }
  }
}

function stopping(unit: string): AppError {
  return pullError('runtime/stopping', `${unit} is being stopped`);
}
