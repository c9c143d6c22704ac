import { isAsNew, isSameRecord, ledgerOf, type PinAssessment } from '../../domain/release/unclaimed-pins.ts';
import type { PinLedger } from '../../domain/state/pin-ledger.ts';
import { oneAtATime } from '../../platform/async/one-at-a-time.ts';
import type { Log } from '../../platform/log.ts';
import type { PinLedgerStore, StateReader } from '../../ports/state.ts';
import { createFailureLog } from '../reporting/failure-log.ts';

/** The adapters of {@link createPinKeeper}. */
export interface PinKeeperDependencies {
  readonly pinLedger: PinLedgerStore;
  readonly store: StateReader;
  readonly log: Log;
}

/** Keeps a ledger outside the database: which pins exist, and to which release each belongs. */
export interface PinKeeper {
  /** The current ledger. Undefined before the first one is stored. */
  ledger(): PinLedger | undefined;
  /**
   * Stores the conclusions that a round made from the ledger `from`. Does nothing if the ledger has
   * changed since. A failed write is logged once and tried again in the next round. Only an abort
   * throws.
   */
  follow(pins: PinAssessment, from: PinLedger | undefined, signal: AbortSignal): Promise<void>;
  /**
   * Gives up these unclaimed pins. The next round removes them from the runtime.
   *
   * @throws AppError `store/write`, `store/no-space` (`retry`), or whatever aborted `signal` before
   *   its turn. Then no pin is given up.
   */
  giveUp(references: readonly string[], signal: AbortSignal): Promise<void>;
}

/**
 * Creates a keeper that continues with the stored ledger. INVARIANT: one change at a time; each
 * starts from the result of the change before it.
 */
export function createPinKeeper({ pinLedger, store, log }: PinKeeperDependencies): PinKeeper {
  let ledger = pinLedger.load();
  let isWritten = true;
  const failures = createFailureLog(log, (reason) => `${reason}. The pins stay; it is retried automatically`);
  const inTurn = oneAtATime();

  async function follow(
    { record, isUncertain }: PinAssessment,
    from: PinLedger | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (isUncertain || from !== ledger) return;
    const { bundles, age = NO_AGE } = store.load();
    const isSame = ledger !== undefined && isSameRecord(record, ledger) && isAsNew(age, ledger.state);
    if (isSame && isWritten) return;
    if (!isSame) ledger = ledgerOf(record, bundles, age);
    try {
      if (ledger !== undefined) await pinLedger.save(ledger, signal);
      isWritten = true;
      failures.succeeded();
    } catch (error) {
      isWritten = false;
      signal.throwIfAborted();
      failures.failed(error);
    }
  }

  async function giveUp(references: readonly string[], signal: AbortSignal): Promise<void> {
    const { bundles, age = NO_AGE } = store.load();
    const given = new Set(references);
    const keep = (all: readonly string[]) => all.filter((reference) => !given.has(reference));
    const releases = (ledger?.releases ?? [])
      .map((release) => ({ ...release, references: keep(release.references) }))
      .filter((release) => release.references.length > 0);
    const givenUp = [...new Set([...(ledger?.givenUp ?? []), ...references])].sort();
    const next = ledgerOf({ releases, unclaimed: keep(ledger?.unclaimed ?? []), givenUp }, bundles, age);
    await pinLedger.save(next, signal);
    [ledger, isWritten] = [next, true];
  }

  return {
    ledger: () => ledger,
    follow: (pins, from, signal) => inTurn(signal, () => follow(pins, from, signal)),
    giveUp: (references, signal) => inTurn(signal, () => giveUp(references, signal)),
  };
}

const NO_AGE = { origin: '', revision: 0 };
