import { isAsNew, isSameRecord, ledgerOf, type PinAssessment } from '../../domain/release/unclaimed-pins.ts';
import type { PinLedger } from '../../domain/state/release-record.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import type { EngineContext } from '../context.ts';
import { FailureLog } from '../reporting/event-recorder.ts';

const NO_AGE = { origin: '', revision: 0 };

/** INVARIANT: one change at a time; each starts from the result of the change before it. */
export class PinKeeper {
  private current: PinLedger | undefined;
  private isWritten = true;
  private readonly failures: FailureLog;
  private readonly inTurn = oneAtATime();

  constructor(private readonly context: EngineContext) {
    this.current = context.pinLedger.load();
    this.failures = new FailureLog(context.log, (reason) => `${reason}. The pins stay; it is retried automatically`);
  }

  ledger(): PinLedger | undefined {
    return this.current;
  }

  /** Unless the ledger has changed since `from`. A failure is logged once; only an abort throws. */
  reconcile({ record, isUncertain }: PinAssessment, from: PinLedger | undefined, signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      if (isUncertain || from !== this.current) return;
      const { bundles, age = NO_AGE } = this.context.store.load();
      const isSame =
        this.current !== undefined && isSameRecord(record, this.current) && isAsNew(age, this.current.state);
      if (isSame && this.isWritten) return;
      if (!isSame) this.current = ledgerOf(record, bundles, age);
      try {
        if (this.current !== undefined) await this.context.pinLedger.save(this.current, signal);
        this.isWritten = true;
        this.failures.succeeded();
      } catch (error) {
        this.isWritten = false;
        signal.throwIfAborted();
        this.failures.failed(error);
      }
    });
  }

  /**
   * Gives up unclaimed pins. The next round removes them from the runtime.
   * @throws AppError `store/write`, `store/no-space` (`retry`), or whatever aborted `signal` before
   *   its turn; then no pin is given up
   */
  giveUp(references: readonly string[], signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      const { bundles, age = NO_AGE } = this.context.store.load();
      const given = new Set(references);
      const keep = (all: readonly string[]) => all.filter((reference) => !given.has(reference));
      const releases = (this.current?.releases ?? [])
        .map((release) => ({ ...release, references: keep(release.references) }))
        .filter((release) => release.references.length > 0);
      const givenUp = [...new Set([...(this.current?.givenUp ?? []), ...references])].sort();
      const next = ledgerOf({ releases, unclaimed: keep(this.current?.unclaimed ?? []), givenUp }, bundles, age);
      await this.context.pinLedger.save(next, signal);
      [this.current, this.isWritten] = [next, true];
    });
  }
}
