import { areSameFloors, floorsNow, higherFloors, withoutDoubt, withoutStream } from '../../domain/adoption/floors.ts';
import { type Condition, type ConditionMarks, conditionsOf, marksAfter } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { isSameRecord } from '../../domain/release/unclaimed-pins.ts';
import { judgeConditions } from '../../domain/report/judge-conditions.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Floors, PinLedger, PinnedRelease } from '../../domain/state/release-record.ts';
import { NEVER_ABORTED } from '../../platform/async/abort.ts';
import { oneAtATime } from '../../platform/async/concurrency.ts';
import type { Log } from '../../platform/log.ts';
import type { FloorStore, PinLedgerStore, StateStore } from '../../ports/state.ts';
import type { Conditions, Part } from '../context.ts';
import { FailureLog } from '../reporting/event-recorder.ts';

export class ConditionKeeper {
  /** Times that could not be stored, which would otherwise change every round. */
  private readonly unsaved = new Map<BundleId, ConditionMarks>();
  private readonly failures: FailureLog;

  constructor(
    private readonly store: StateStore,
    log: Log,
  ) {
    this.failures = new FailureLog(log, (reason) => `When conditions changed could not be kept: ${reason}`);
  }

  /** Writes only when a status changed, in one transaction. Never throws. */
  follow({ observed, memory, assessment }: Snapshot): Conditions {
    const conditions = new Map<BundleId, readonly Condition[]>();
    for (const [{ bundle }, verdicts] of judgeConditions(observed, memory, assessment)) {
      const { bundleId } = bundle;
      const known = this.unsaved.get(bundleId) ?? this.store.conditions().get(bundleId) ?? {};
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
      this.store.setConditions(this.unsaved);
      this.unsaved.clear();
      this.failures.succeeded();
    } catch (error) {
      this.failures.failed(error);
    }
  }
}

export class MirrorKeeper implements Part {
  private readonly failures: FailureLog;

  constructor(
    private readonly store: StateStore,
    log: Log,
  ) {
    this.failures = new FailureLog(
      log,
      (reason) => `${reason}. The mirror of the state is older; it is retried automatically`,
    );
  }

  async reconcile(_decided: Snapshot, signal: AbortSignal): Promise<void> {
    await this.failures.run(signal, () => this.store.mirror(signal));
  }
}

/** INVARIANT: one change at a time; only a reset lowers a floor. */
export class FloorKeeper implements Part {
  private kept: Floors;
  private isWritten: boolean;
  private readonly failures: FailureLog;
  private readonly inTurn = oneAtATime();

  constructor(
    private readonly stored: FloorStore,
    private readonly store: StateStore,
    log: Log,
  ) {
    this.kept = stored.load();
    this.isWritten = stored.isWhole();
    this.failures = new FailureLog(log);
  }

  /** The floor of a stream is the higher of the stored value and that of its bundles. */
  floors(): Floors {
    return floorsNow(this.kept, this.store.load().bundles);
  }

  /** Missing floors count as lost when the runtime has pins of ours that no record has. */
  async reconcile(snapshot: Snapshot, signal: AbortSignal): Promise<void> {
    const isForgotten = areFloorsForgotten(snapshot);
    const work = () => {
      const current = this.floors();
      const areLost = current.areLost || (isForgotten && current.sequences.size === 0);
      return this.save({ ...current, areLost }, signal);
    };
    await this.inTurn(signal, () => this.failures.run(signal, work));
  }

  /** Takes no signal: the tags have already moved. @throws AppError `store/…` (`retry`) */
  raise(stream: string, sequence: number): Promise<void> {
    return this.inTurn(NEVER_ABORTED, () => {
      const current = this.floors();
      const raised = higherFloors(current, { ...current, sequences: new Map([[stream, sequence]]) });
      return this.save({ ...raised, ...withoutDoubt(raised, stream) }, NEVER_ABORTED);
    });
  }

  /** When this or `record` fails, the floors are as before. @throws AppError `store/…` */
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
    await this.stored.save(wanted, signal);
    this.isWritten = true;
  }
}

/** The runtime has pins of ours, which no record has. */
export function areFloorsForgotten({ memory, assessment }: Snapshot): boolean {
  return memory.pinLedger === undefined && assessment.pins.unclaimed.length > 0;
}

/** INVARIANT: one change at a time; each starts from the result of the change before it. */
export class PinKeeper implements Part {
  private current: PinLedger | undefined;
  private isWritten = true;
  private readonly failures: FailureLog;
  private readonly inTurn = oneAtATime();

  constructor(
    private readonly stored: PinLedgerStore,
    log: Log,
  ) {
    this.current = stored.load();
    this.failures = new FailureLog(log, (reason) => `${reason}. The pins stay; it is retried automatically`);
  }

  ledger(): PinLedger | undefined {
    return this.current;
  }

  /**
   * Pins of releases that can't be proven now. The next {@link reconcile} records them.
   * @returns whether any is new
   */
  addUnclaimed(releases: readonly PinnedRelease[]): boolean {
    const { current } = this;
    const known = new Set([...(current?.unclaimed ?? []), ...(current?.givenUp ?? [])]);
    const fresh = releases.flatMap(({ references }) => references).filter((reference) => !known.has(reference));
    if (fresh.length === 0) return false;
    this.current = {
      ...(current ?? { givenUp: [], isDoubted: true }),
      releases: [...(current?.releases ?? []), ...releases],
      unclaimed: [...new Set([...(current?.unclaimed ?? []), ...fresh])].sort(),
    };
    this.isWritten = false;
    return true;
  }

  /** Does nothing when the ledger has changed since the observation. */
  reconcile({ assessment, memory }: Snapshot, signal: AbortSignal): Promise<void> {
    const { record, isUncertain } = assessment.pins;
    return this.inTurn(signal, async () => {
      if (isUncertain || memory.pinLedger !== this.current) return;
      const { current } = this;
      const isSame = current !== undefined && current.isDoubted !== true && isSameRecord(record, current);
      if (isSame && this.isWritten) return;
      if (!isSame) this.current = record;
      this.isWritten = false;
      this.isWritten = await this.failures.run(signal, async () => {
        if (this.current !== undefined) await this.stored.save(this.current, signal);
      });
    });
  }

  /**
   * Gives up unclaimed pins. The next round removes them from the runtime.
   * @throws AppError `store/write`, `store/no-space` (`retry`), or whatever aborted `signal` before
   *   its turn; then no pin is given up
   */
  giveUp(references: readonly string[], signal: AbortSignal): Promise<void> {
    return this.inTurn(signal, async () => {
      const given = new Set(references);
      const keep = (all: readonly string[]) => all.filter((reference) => !given.has(reference));
      const releases = (this.current?.releases ?? [])
        .map((release) => ({ ...release, references: keep(release.references) }))
        .filter((release) => release.references.length > 0);
      const givenUp = [...new Set([...(this.current?.givenUp ?? []), ...references])].sort();
      const next = { ...this.current, releases, unclaimed: keep(this.current?.unclaimed ?? []), givenUp };
      await this.stored.save(next, signal);
      [this.current, this.isWritten] = [next, true];
    });
  }
}
