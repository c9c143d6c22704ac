import type { Signers } from '../domain/adoption/adoption.ts';
import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { ConditionMarks } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Fault, RuleCode } from '../domain/model/reason.ts';
import type { BadBlob } from '../domain/state/checks.ts';
import type { TagGiven } from '../domain/state/memory.ts';
import type { Floors, PinLedger, Soak } from '../domain/state/release-record.ts';
import type { Stored, StoredBundle } from '../domain/state/state.ts';
import type { KeyRotation, RejectedName, Verdict } from '../domain/trust/approval.ts';
import type { RevocationRecord } from '../domain/trust/revocation-record.ts';

/** An event of the history. `at`: milliseconds since the epoch. */
export interface EventRow {
  readonly at: number;
  readonly kind: string;
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  /** `uid 1000: activate`, `schedule`, `window`, `rollout`, or `daemon`. Absent in old events. */
  readonly by?: string;
}

export type BundleMark = 'readyAt' | 'activationRequestedAt' | 'activatedAt' | 'activeAt' | 'provenAt';

/**
 * The state that can't be observed. A change is one transaction with its line of history. It
 * outlives the process at once, and a power cut as soon as it is settled. All calls but {@link
 * StateStore.settled} are synchronous.
 *
 * Changes throw AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) or
 * `store/damaged` (`wait`), and change nothing then.
 */
export interface StateStore {
  /** The bundles in the order of adoption. No I/O. */
  load(): Stored;
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
   * until the next start. After a failed change it makes a small test write.
   */
  trouble(): Fault | undefined;
  /**
   * Writes a copy of the whole state after a change that must not be lost: an adoption, a verdict,
   * a milestone, a retirement, a reset.
   *
   * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`)
   */
  keepCopy(signal: AbortSignal): Promise<void>;
  append(event: EventRow): void;
  /** The newest `limit` events, oldest first; of all bundles when `bundleId` is undefined. */
  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
  /** A known bundle stays as it is. @param isClaim the node had pins of it before */
  adopt(bundle: VerifiedBundle, event: EventRow, rotation?: KeyRotation, isClaim?: boolean): void;
  setSigners(bundleId: BundleId, signers: Signers, event: EventRow): void;
  /** Adds a bundle with its milestones after a loss of the state. A known bundle stays as it is. */
  rebuild(bundle: StoredBundle, event: EventRow, rotation?: KeyRotation): void;
  /**
   * Replaces the milestones of a known bundle, except of retirement. After a reset of its stream
   * (`resetAt`), the keys that bundles of the stream added go too.
   */
  restoreTimes(bundle: StoredBundle, event: EventRow): void;
  /** Replaces the earlier verdict on the digest. */
  setVerdict(verdict: Verdict, event: EventRow): void;
  /** Replaces the earlier rejection of the name. */
  rejectName(rejected: RejectedName, event: EventRow): void;
  allowName(release: Pick<RejectedName, 'name' | 'version'>, event: EventRow): void;
  /** Set before the pull, so that a crash can't lose it, and cleared if the pull fails. */
  setPulledByUs(reference: string, isPulledByUs: boolean): void;
  /** Replaces the list of a bundle. Adds no event. */
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  /** `media`: plugged in at the cancellation; undefined resumes the preloads. */
  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void;
  /** The media that have stayed plugged in. Adds no event. */
  setCancelledMedia(bundleId: BundleId, media: readonly MediumId[]): void;
  /** @param overrides the confirmed rules, which replace earlier ones */
  requestActivation(bundleId: BundleId, overrides: readonly RuleCode[], event: EventRow): void;
  /**
   * Also requests the activation of the bundle `next`. @param reason what is shown once that is
   * done; default: the message of `event`
   */
  rollBack(
    bundleId: BundleId,
    event: EventRow,
    next: { readonly bundleId: BundleId; readonly event: EventRow },
    reason?: string,
  ): void;
  /** Sets a time of a bundle to the time of `event`. */
  mark(bundleId: BundleId, what: BundleMark, event: EventRow): void;
  /** Adds no event. */
  setSoak(bundleId: BundleId, soak: Soak): void;
  /** Tags begin to move; undefined: the activation is given up. Adds no event. */
  setActivationBegun(bundleId: BundleId, at: number | undefined): void;
  retire(bundleId: BundleId, removeImages: boolean, event: EventRow): void;
  /** Since when each condition of each bundle has its status. No I/O. */
  conditions(): ReadonlyMap<BundleId, ConditionMarks>;
  /** Replaces the marks of these bundles. Adds no event. */
  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void;
  /** Oldest first. No I/O. */
  tagsGiven(): readonly TagGiven[];
  /** Replaces all of them. Adds no event. */
  setTagsGiven(given: readonly TagGiven[]): void;
}

export interface RevocationStore {
  /** @throws AppError `bundle/revocation-record` (`wait`) when it is damaged */
  revocationRecord(): RevocationRecord | undefined;
  /** @param event set when a person caused the change */
  setRevocationRecord(record: RevocationRecord, event?: EventRow): void;
}

/** A new start of a stream (`stickpin trust reset`). */
export interface StreamStore {
  /** Forgets the keys that its bundles added, and their sequence and time. */
  resetStream(stream: string, event: EventRow): void;
}

export interface FloorRecordStore {
  /**
   * Gives a database that was found to be an old copy a new origin. Files with the old origin no
   * longer match it. @throws AppError `store/write` (`retry`)
   */
  renewOrigin(): void;
  floorRecord(): string | undefined;
  /** @throws AppError `store/write` (`retry`) */
  setFloorRecord(document: string): void;
}

export interface FloorStore {
  /** As of the start of the daemon: the higher value of both places. No I/O. */
  load(): Floors;
  /** Whether both places had them. */
  isWhole(): boolean;
  /** Durable. @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) */
  save(floors: Floors, signal: AbortSignal): Promise<void>;
}

export interface PinLedgerStore {
  /** As of the start of the daemon. Undefined when nothing could be read. No I/O. */
  load(): PinLedger | undefined;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: PinLedger, signal: AbortSignal): Promise<void>;
}
