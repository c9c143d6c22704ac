import type { Signers } from '../domain/adoption/signers.ts';
import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { ConditionMarks } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { MediumId, Reason } from '../domain/model/medium.ts';
import type { RuleCode } from '../domain/model/rule-code.ts';
import type { BadBlob } from '../domain/state/bad-blob.ts';
import type { Floors } from '../domain/state/floor-set.ts';
import type { PinLedger } from '../domain/state/pin-ledger.ts';
import type { Soak } from '../domain/state/soak-record.ts';
import type { Stored, TagGiven } from '../domain/state/state.ts';
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

/**
 * The state that can't be observed. Every change is one transaction together with its line of history; all calls but {@link StateStore.settled} are
 * synchronous. A change outlives the process at once, and a power cut as soon as it is settled.
 */
export interface StateStore {
  load(): Stored;
  /**
   * Resolves when all that was changed so far is on the disk: to be awaited before anything else is done that leans on it.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) until it is; what was changed is in force meanwhile.
   */
  settled(): Promise<void>;
  /**
   * Why nothing can be recorded now: `store/no-space` or `store/read-only`; undefined while nothing is known to be wrong. Costs a look at the filesystem, and
   * a small write where a change has failed.
   */
  trouble(): Reason | undefined;
  /** Adds a bundle, and the keys that it brings or revokes; one that is known stays as it is. `isClaim`: its pins were here before, default false. */
  adopt(bundle: VerifiedBundle, event: EventRow, rotation?: KeyRotation, isClaim?: boolean): void;
  setSigners(bundleId: BundleId, signers: Signers, event: EventRow): void;
  /** Replaces what was said about the digest before. */
  setVerdict(verdict: Verdict, event: EventRow): void;
  /** Asks for the activation of a bundle at the time of `event`; `overrides` replaces what was confirmed before. */
  requestActivation(bundleId: BundleId, overrides: readonly RuleCode[], event: EventRow): void;
  /** Sets a time of a bundle to that of `event`. */
  mark(bundleId: BundleId, what: BundleMark, event: EventRow): void;
  /** Keeps the soak clock of a bundle; no line of history. */
  setSoak(bundleId: BundleId, soak: Soak): void;
  /** Retires a bundle at the time of `event`. */
  retire(bundleId: BundleId, removeImages: boolean, event: EventRow): void;
  /**
   * Marks a bundle as rolled back at the time of `event`, whose message is the reason that is shown from then on, and asks for the activation of
   * the one that takes its place, at the time of its event.
   */
  rollBack(bundleId: BundleId, event: EventRow, next: { readonly bundleId: BundleId; readonly event: EventRow }): void;
  /** Whether stickpin brings the image of this reference: said before it is pulled, so that a crash loses nothing, and taken back if it fails. */
  setPulledByUs(reference: string, isPulledByUs: boolean): void;
  /** Marks preloads as cancelled while `media` were plugged in; with `media` undefined they go on. */
  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void;
  /** Replaces what was found bad of a bundle on media; no line of history. */
  setBadBlobs(bundleId: BundleId, badBlobs: readonly BadBlob[]): void;
  append(event: EventRow): void;
  /** Since when each condition of each bundle has its status. No I/O. */
  conditions(): ReadonlyMap<BundleId, ConditionMarks>;
  /** Replaces the marks of these bundles; no line of history. */
  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void;
  /** Tags that were given to their images again, oldest first. No I/O. */
  tagsGiven(): readonly TagGiven[];
  /** Replaces all of them; no line of history. */
  setTagsGiven(given: readonly TagGiven[]): void;
  /** The newest `limit` events, oldest first; of all bundles when `bundleId` is undefined. */
  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
}

/** Where the record of revocations is kept beside the rest of the state. */
export interface RevocationStore {
  /** What was stored of revocations; undefined when nothing was yet. @throws AppError `bundle/revocation-record` (`wait`) when it is damaged */
  revocationRecord(): RevocationRecord | undefined;
  /** Replaces it, with a line of history where a person did it. */
  setRevocationRecord(record: RevocationRecord, event?: EventRow): void;
}

/** The floors in the database, as a JSON document, and the identity of the database. */
export interface FloorRecordStore {
  /** Makes it another database than the one that other files were written beside: it was found to be an earlier copy. @throws AppError `store/write` (`retry`) */
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
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) */
  save(floors: Floors): Promise<void>;
}

/** Keeps what is remembered of pins in a file beside the database. */
export interface PinLedgerStore {
  /** As it was when the daemon started; undefined when there was none that could be read. No I/O. */
  load(): PinLedger | undefined;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: PinLedger): Promise<void>;
}
