import { isAsNew, isSameRecord, ledgerOf, type PinAssessment } from '../../domain/release/unclaimed-pins.ts';
import type { PinLedger } from '../../domain/state/pin-ledger.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';
import type { PinLedgerStore, StateReader } from '../../ports/state.ts';

/** What {@link createPinKeeper} works on. */
export interface PinKeeperDependencies {
  readonly pinLedger: PinLedgerStore;
  readonly store: StateReader;
  readonly log: Log;
}

/** Remembers beside the database which pins there are and which release each belongs to. */
export interface PinKeeper {
  /** As it is remembered now; undefined before anything was. */
  ledger(): PinLedger | undefined;
  /**
   * Remembers what a round concluded from the ledger `from`; nothing if the ledger has changed
   * since. A failure to write is logged once and tried again with the next round; it stands in the
   * way of nothing. Only an abort throws.
   */
  follow(pins: PinAssessment, from: PinLedger | undefined, signal: AbortSignal): Promise<void>;
  /**
   * Gives up these unclaimed pins: the next round takes them off the runtime.
   *
   * @throws AppError `store/write`, `store/no-space` (`retry`), or what aborted `signal` before its
   *   turn; nothing is given up then.
   */
  giveUp(references: readonly string[], signal: AbortSignal): Promise<void>;
}

/**
 * A keeper that goes on with what is stored. INVARIANT: one change at a time, each from the ledger
 * that the one before has left.
 */
export function createPinKeeper({ pinLedger, store, log }: PinKeeperDependencies): PinKeeper {
  let ledger = pinLedger.load();
  let isWritten = true;
  let trouble: string | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const exclusively = <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    const result = last.then(() => {
      signal.throwIfAborted();
      return work();
    });
    last = result.catch(() => undefined); // whoever asked for it hears of its error
    return result;
  };

  async function follow({ record, isUncertain }: PinAssessment, from: PinLedger | undefined): Promise<void> {
    if (isUncertain || from !== ledger) return;
    const { bundles, age = NO_AGE } = store.load();
    const isSame = ledger !== undefined && isSameRecord(record, ledger) && isAsNew(age, ledger.state);
    if (isSame && isWritten) return;
    if (!isSame) ledger = ledgerOf(record, bundles, age);
    try {
      if (ledger !== undefined) await pinLedger.save(ledger);
      [isWritten, trouble] = [true, undefined];
    } catch (error) {
      isWritten = false;
      const reason = reasonOf(error);
      if (reason !== trouble) log.warn({ err: error }, `${reason}. The pins stay; it is tried again by itself`);
      trouble = reason;
    }
  }

  async function giveUp(references: readonly string[]): Promise<void> {
    const { bundles, age = NO_AGE } = store.load();
    const given = new Set(references);
    const keep = (all: readonly string[]) => all.filter((reference) => !given.has(reference));
    const releases = (ledger?.releases ?? [])
      .map((release) => ({ ...release, references: keep(release.references) }))
      .filter((release) => release.references.length > 0);
    const givenUp = [...new Set([...(ledger?.givenUp ?? []), ...references])].sort();
    const next = ledgerOf({ releases, unclaimed: keep(ledger?.unclaimed ?? []), givenUp }, bundles, age);
    await pinLedger.save(next);
    [ledger, isWritten] = [next, true];
  }

  return {
    ledger: () => ledger,
    follow: (pins, from, signal) => exclusively(signal, () => follow(pins, from)),
    giveUp: (references, signal) => exclusively(signal, () => giveUp(references)),
  };
}

const NO_AGE = { origin: '', revision: 0 };
