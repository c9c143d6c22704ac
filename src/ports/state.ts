import type { Signers } from '../domain/adoption/adoption.ts';
import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { ConditionMarks } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Fault, RuleCode } from '../domain/model/reason.ts';
import type { BadBlob } from '../domain/state/checks.ts';
import type { TagGiven } from '../domain/state/memory.ts';
import type { Floors, PinLedger } from '../domain/state/pin-ledger.ts';
import type { Soak } from '../domain/state/release-record.ts';
import type { Stored, StoredBundle } from '../domain/state/state.ts';
import type { KeyRotation, RejectedName, Verdict } from '../domain/trust/approval.ts';
import type { RevocationRecord } from '../domain/trust/revocation-record.ts';

/** One event of the history. `at`: milliseconds since the epoch. */
export interface EventRow {
  readonly at: number;
  readonly kind: string;
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  /**
   * Who or what did it: a caller with the command (`uid 1000: activate`), `schedule`, `window`,
   * `rollout`, or `daemon`. Absent in events of earlier versions.
   */
  readonly by?: string;
}

/** The times that are recorded for an adopted bundle. */
export type BundleMark = 'readyAt' | 'activationRequestedAt' | 'activatedAt' | 'activeAt' | 'provenAt';

/*
 * The state that can't be observed, one port for each need. Every change is one transaction
 * together with its line of history. All calls but {@link Durability.settled} are synchronous. A
 * change outlives the process at once, and a power cut as soon as it is settled.
 *
 * Every change throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) or
 * `store/damaged` (`wait`), and changes nothing then.
 */

/** Reads the state. */
export interface StateReader {
  /** The bundles in the order of adoption, and the rest of the state. No I/O. */
  load(): Stored;
}

/** Whether changes are on the disk. */
export interface Durability {
  /**
   * Resolves when all changes so far are on the disk. Await it before an action that depends on
   * them.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) until they are;
   *   the changes are in effect meanwhile
   */
  settled(signal: AbortSignal): Promise<void>;
  /**
   * Why no change can be recorded now: `store/no-space`, `store/read-only`, or `store/damaged`
   * until the next start. Undefined while no problem is known. Reads the state of the filesystem,
   * and after a failed change makes a small test write.
   */
  trouble(): Fault | undefined;
}

/** Copies of the whole state, which take its place when it is lost. */
export interface StateCopies {
  /**
   * Writes a copy when a change was made that must not be lost: an adoption, a verdict, a
   * milestone, a retirement, a reset. Does nothing otherwise.
   *
   * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`)
   */
  keepCopy(signal: AbortSignal): Promise<void>;
}

/** The history. */
export interface EventLog {
  append(event: EventRow): void;
  /** The newest `limit` events, oldest first; of all bundles when `bundleId` is undefined. */
  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
}

/** Adopted bundles and their signers. */
export interface AdoptionStore {
  /**
   * Adds a bundle, and the keys that it adds or revokes. A known bundle stays as it is. @param
   * isClaim whether the node had pins of it before; default false
   */
  adopt(bundle: VerifiedBundle, event: EventRow, rotation?: KeyRotation, isClaim?: boolean): void;
  setSigners(bundleId: BundleId, signers: Signers, event: EventRow): void;
}

/** Bundles that are known again after the state was lost. */
export interface RebuildStore {
  /**
   * Adds a bundle with its milestones, and the keys that it adds or revokes. A known bundle stays
   * as it is.
   */
  rebuild(bundle: StoredBundle, event: EventRow, rotation?: KeyRotation): void;
  /**
   * Replaces the milestones of a known bundle, except of retirement. When its stream was reset
   * since (`resetAt`), the keys that bundles of the stream added go too.
   */
  restoreTimes(bundle: StoredBundle, event: EventRow): void;
}

/** Approvals and rejections of bundles. */
export interface VerdictStore {
  /** Replaces the earlier verdict on the digest. */
  setVerdict(verdict: Verdict, event: EventRow): void;
  /** Replaces the earlier rejection of the name. */
  rejectName(rejected: RejectedName, event: EventRow): void;
  /** Takes the rejection of a name back, if there is one. */
  allowName(release: Pick<RejectedName, 'name' | 'version'>, event: EventRow): void;
}

/** The progress of preloads. */
export interface PreloadStore {
  /**
   * Records whether stickpin pulls this reference. Set before the pull, so that a crash can't lose
   * it, and cleared if the pull fails.
   */
  setPulledByUs(reference: string, isPulledByUs: boolean): void;
  /** Replaces the list of bad blobs of a bundle. Adds no event. */
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  /**
   * Marks preloads as cancelled while `media` were plugged in. With `media` undefined it resumes
   * them.
   */
  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void;
  /**
   * Replaces the media of a cancellation by those that have stayed plugged in. Adds no event, and
   * does nothing when the preload is not cancelled.
   */
  setCancelledMedia(bundleId: BundleId, media: readonly MediumId[]): void;
}

/** Requests for activations. */
export interface ActivationStore {
  /**
   * Records an activation request with the time of `event`. @param overrides the confirmed rules,
   * which replace earlier ones
   */
  requestActivation(bundleId: BundleId, overrides: readonly RuleCode[], event: EventRow): void;
  /**
   * Marks a bundle as rolled back at the time of `event`. Also requests the activation of the
   * bundle `next` at the time of its event. @param reason what is shown once that is done; default:
   * the message of `event`
   */
  rollBack(
    bundleId: BundleId,
    event: EventRow,
    next: { readonly bundleId: BundleId; readonly event: EventRow },
    reason?: string,
  ): void;
}

/** Milestones of bundles. */
export interface MilestoneStore {
  /** Sets a time of a bundle to the time of `event`. */
  mark(bundleId: BundleId, what: BundleMark, event: EventRow): void;
  /** Stores the soak clock of a bundle. Adds no event. */
  setSoak(bundleId: BundleId, soak: Soak): void;
  /** Records that tags begin to move; undefined: the activation is given up. Adds no event. */
  setActivationBegun(bundleId: BundleId, at: number | undefined): void;
}

/** Retirements of bundles. */
export interface RetirementStore {
  /** Retires a bundle at the time of `event`. */
  retire(bundleId: BundleId, removeImages: boolean, event: EventRow): void;
}

/** Since when each condition of each bundle has its status. */
export interface ConditionStore {
  /** No I/O. */
  conditions(): ReadonlyMap<BundleId, ConditionMarks>;
  /** Replaces the marks of these bundles. Adds no event. */
  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void;
}

/** Restored tags. */
export interface TagStore {
  /** Oldest first. No I/O. */
  tagsGiven(): readonly TagGiven[];
  /** Replaces all of them. Adds no event. */
  setTagsGiven(given: readonly TagGiven[]): void;
}

/** All stores of the engine. */
export type StateStore = StateReader &
  Durability &
  StateCopies &
  EventLog &
  AdoptionStore &
  RebuildStore &
  VerdictStore &
  PreloadStore &
  ActivationStore &
  MilestoneStore &
  RetirementStore &
  ConditionStore &
  TagStore;

/** The copy of the record of revocations in the database. */
export interface RevocationStore {
  /**
   * The stored record. Undefined when there is none. @throws AppError `bundle/revocation-record`
   * (`wait`) when it is damaged
   */
  revocationRecord(): RevocationRecord | undefined;
  /** Replaces it. @param event set when a person caused the change */
  setRevocationRecord(record: RevocationRecord, event?: EventRow): void;
}

/** Where a stream begins anew (`stickpin trust reset`). */
export interface StreamStore {
  /**
   * Forgets, of a stream, the keys that its bundles added, and what the bundles that are known
   * say of sequence and time.
   */
  resetStream(stream: string, event: EventRow): void;
}

/** The floors in the database, as a JSON document, and the identity of the database. */
export interface FloorRecordStore {
  /**
   * Gives the database a new origin, after it was found to be an old copy. Files that name the old
   * origin no longer match it. @throws AppError `store/write` (`retry`)
   */
  renewOrigin(): void;
  floorRecord(): string | undefined;
  /** @throws AppError `store/write` (`retry`) */
  setFloorRecord(document: string): void;
}

/** The floors, which are stored in a file and in the database. */
export interface FloorStore {
  /** The floors when the daemon started: the higher value of both places. No I/O. */
  load(): Floors;
  /** Whether both the file and the database had them. */
  isWhole(): boolean;
  /**
   * Durable when it resolves. @throws AppError `store/write`, `store/no-space`, `store/read-only`
   * (`retry`)
   */
  save(floors: Floors, signal: AbortSignal): Promise<void>;
}

/** The pin ledger, in a file outside the database. */
export interface PinLedgerStore {
  /**
   * The ledger as it was when the daemon started. Undefined when there was no readable one. No I/O.
   */
  load(): PinLedger | undefined;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: PinLedger, signal: AbortSignal): Promise<void>;
}
