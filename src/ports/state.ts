import type { Signers } from '../domain/adoption/signers.ts';
import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { ConditionMarks } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { RuleCode } from '../domain/model/rule-code.ts';
import type { BadBlob } from '../domain/state/bad-blob.ts';
import type { Floors } from '../domain/state/floor-set.ts';
import type { TagGiven } from '../domain/state/memory.ts';
import type { PinLedger } from '../domain/state/pin-ledger.ts';
import type { Soak } from '../domain/state/soak-record.ts';
import type { Stored } from '../domain/state/state.ts';
import type { Verdict } from '../domain/trust/approval.ts';
import type { KeyRotation } from '../domain/trust/key-rotation.ts';
import type { RevocationRecord } from '../domain/trust/revocation-record.ts';

/** One line of the history. */
export interface EventRow {
  readonly at: number;
  readonly kind: string;
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
}

/** What is recorded about an adopted bundle beside its contents. */
export type BundleMark = 'readyAt' | 'activationRequestedAt' | 'activatedAt' | 'activeAt' | 'provenAt';

/*
 * The state that can't be observed, one port for each need. Every change is one transaction
 * together with its line of history. All calls but {@link Durability.settled} are synchronous. A
 * change outlives the process at once, and a power cut as soon as it is settled.
 *
 * Every change throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) or
 * `store/damaged` (`wait`), and changes nothing then.
 */

/** What is recorded. */
export interface StateReader {
  /** The bundles in the order of adoption, and what goes with them. No I/O. */
  load(): Stored;
}

/** Whether what was recorded is safe. */
export interface Durability {
  /**
   * Resolves when all that was changed so far is on the disk: to be awaited before anything else is
   * done that leans on it.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) until it is; what
   * was changed is in force meanwhile.
   */
  settled(): Promise<void>;
  /**
   * Why nothing can be recorded now: `store/no-space`, `store/read-only`, or `store/damaged` until
   * the next start; undefined while nothing is known to be wrong. Costs a look at the filesystem,
   * and a small write where a change has failed.
   */
  trouble(): Fault | undefined;
}

/** The history. */
export interface EventLog {
  append(event: EventRow): void;
  /** The newest `limit` events, oldest first; of all bundles when `bundleId` is undefined. */
  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
}

/** Which bundles are known, and who signed them. */
export interface AdoptionStore {
  /**
   * Adds a bundle, and the keys that it brings or revokes; one that is known stays as it is.
   * `isClaim`: its pins were here before, default false.
   */
  adopt(bundle: VerifiedBundle, event: EventRow, rotation?: KeyRotation, isClaim?: boolean): void;
  setSigners(bundleId: BundleId, signers: Signers, event: EventRow): void;
}

/** What a person said about bundles. */
export interface VerdictStore {
  /** Replaces what was said about the digest before. */
  setVerdict(verdict: Verdict, event: EventRow): void;
}

/** What is recorded while the images of a bundle are brought. */
export interface PreloadStore {
  /**
   * Whether stickpin brings the image of this reference: recorded before it is pulled, so that a
   * crash loses nothing, and taken back if it fails.
   */
  setPulledByUs(reference: string, isPulledByUs: boolean): void;
  /** Replaces what was found bad of a bundle on media; no line of history. */
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  /**
   * Marks preloads as cancelled while `media` were plugged in; with `media` undefined they go on.
   */
  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void;
}

/** Which bundle is to be activated. */
export interface ActivationStore {
  /**
   * Asks for the activation of a bundle at the time of `event`; `overrides` replaces what was
   * confirmed before.
   */
  requestActivation(bundleId: BundleId, overrides: readonly RuleCode[], event: EventRow): void;
  /**
   * Marks a bundle as rolled back at the time of `event`, whose message is the reason that is shown
   * from then on, and asks for the activation of the one that takes its place, at the time of its
   * event.
   */
  rollBack(bundleId: BundleId, event: EventRow, next: { readonly bundleId: BundleId; readonly event: EventRow }): void;
}

/** How far a bundle has come. */
export interface MilestoneStore {
  /** Sets a time of a bundle to that of `event`. */
  mark(bundleId: BundleId, what: BundleMark, event: EventRow): void;
  /** Keeps the soak clock of a bundle; no line of history. */
  setSoak(bundleId: BundleId, soak: Soak): void;
}

/** Which bundles are not needed any more. */
export interface RetirementStore {
  /** Retires a bundle at the time of `event`. */
  retire(bundleId: BundleId, removeImages: boolean, event: EventRow): void;
}

/** Since when each condition of each bundle has its status. */
export interface ConditionStore {
  /** No I/O. */
  conditions(): ReadonlyMap<BundleId, ConditionMarks>;
  /** Replaces the marks of these bundles; no line of history. */
  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void;
}

/** Tags that were given to their images again. */
export interface TagStore {
  /** Oldest first. No I/O. */
  tagsGiven(): readonly TagGiven[];
  /** Replaces all of them; no line of history. */
  setTagsGiven(given: readonly TagGiven[]): void;
}

/** Everything that the engine records, for the one that wires it. */
export type StateStore = StateReader &
  Durability &
  EventLog &
  AdoptionStore &
  VerdictStore &
  PreloadStore &
  ActivationStore &
  MilestoneStore &
  RetirementStore &
  ConditionStore &
  TagStore;

/** Where the record of revocations is kept beside the rest of the state. */
export interface RevocationStore {
  /**
   * What was stored of revocations; undefined when nothing was yet. @throws AppError
   * `bundle/revocation-record` (`wait`) when it is damaged
   */
  revocationRecord(): RevocationRecord | undefined;
  /** Replaces it, with a line of history where a person did it. */
  setRevocationRecord(record: RevocationRecord, event?: EventRow): void;
}

/** The floors in the database, as a JSON document, and the identity of the database. */
export interface FloorRecordStore {
  /**
   * Makes it another database than the one that other files were written beside: it was found to be
   * an earlier copy. @throws AppError `store/write` (`retry`)
   */
  renewOrigin(): void;
  floorRecord(): string | undefined;
  /** @throws AppError `store/write` (`retry`) */
  setFloorRecord(document: string): void;
}

/** Keeps the floors twice: in a file and in the database. */
export interface FloorStore {
  /** As they were when the daemon started, the higher value of each. No I/O. */
  load(): Floors;
  /** Whether both places had them. */
  isWhole(): boolean;
  /**
   * Durable when it resolves. @throws AppError `store/write`, `store/no-space`, `store/read-only`
   * (`retry`)
   */
  save(floors: Floors): Promise<void>;
}

/** Keeps what is remembered of pins in a file beside the database. */
export interface PinLedgerStore {
  /**
   * As it was when the daemon started; undefined when there was none that could be read. No I/O.
   */
  load(): PinLedger | undefined;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: PinLedger): Promise<void>;
}
