import type { Pause } from '../domain/fleet/pause.ts';
import type { Sightings } from '../domain/fleet/sightings.ts';
import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { ConditionMarks } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { MediumId } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { TagGiven } from '../domain/state/memory.ts';
import type { PastSpeaker } from '../domain/state/past.ts';
import type { Floors, PinLedger } from '../domain/state/release-record.ts';
import type { Stored, StoredBundle } from '../domain/state/state.ts';
import type { KeyRotation, RejectedName, Verdict } from '../domain/trust/approval.ts';
import type { RevocationRecord } from '../domain/trust/revocation-record.ts';

/** @see StateStore.rollBack */
export interface TrustState {
  readonly verdicts: readonly Verdict[];
  readonly rejectedNames: readonly RejectedName[];
  readonly rotation: KeyRotation;
}

export interface RollbackWhy {
  readonly text: string;
  readonly isByHand?: true;
}

/** An event of the history. */
export interface EventRow {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly kind: string;
  readonly message: string;
  readonly bundleId?: BundleId;
  readonly medium?: string;
  /** `uid 1000: activate`, `schedule`, `window`, `rollout`, or `daemon`, which is the default. */
  readonly by?: string;
}

/**
 * Fields of an adopted bundle to set; undefined removes a field. Times are milliseconds since the
 * epoch.
 */
export type BundleChange = {
  readonly [Field in keyof Omit<StoredBundle, 'bundleId' | 'payload' | 'contents' | 'cancelled'>]?:
    | StoredBundle[Field]
    | undefined;
};

/**
 * The state that can't be observed. A change is one transaction with its line of history. It
 * outlives the process at once, and a power cut as soon as it is settled. All calls but {@link
 * StateStore.settled} are synchronous.
 *
 * Changes throw AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) or
 * `store/damaged`, `store/version` (`wait`), and change nothing then.
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
   * and `store/version` until the next start. After a failed change it makes a small test write.
   */
  trouble(): Fault | undefined;
  /**
   * Brings the mirror of the state to the disk when a change is not in it that must not be lost: an
   * adoption, a verdict, a milestone, a retirement, a reset, pins, floors, revocations. Awaits
   * {@link StateStore.settled}.
   *
   * @throws AppError `store/no-space`, `store/read-only`, `store/write` (`retry`)
   */
  mirror(signal: AbortSignal): Promise<void>;
  append(event: EventRow): void;
  /** Grows with each event; 0 without any. */
  newestEvent(): number;
  /** The newest `limit` events, oldest first; of all bundles when `bundleId` is undefined. */
  events(bundleId: BundleId | undefined, limit: number): readonly EventRow[];
  /**
   * A known bundle stays as it is. A forgotten one gets its times back, also that of its
   * retirement.
   * @param isClaim the node had pins of it before
   */
  adopt(bundle: VerifiedBundle, event: EventRow, rotation?: KeyRotation, isClaim?: boolean): void;
  /** Adds a bundle with its milestones after a loss of the state. A known bundle stays as it is. */
  rebuild(bundle: StoredBundle, event: EventRow, rotation?: KeyRotation): void;
  /** A soak or a list of bad blobs comes without an event, and may be lost with the database. */
  change(bundleId: BundleId, fields: BundleChange, event?: EventRow): void;
  /**
   * Reduces a retired release to one line. Its statements about others stay, and its verdict if
   * that is a rejection. The keys that it brought and revoked stay.
   */
  forget(bundleId: BundleId, speaker: PastSpeaker | undefined): void;
  /** Replaces the earlier verdict on the digest. */
  setVerdict(verdict: Verdict, event: EventRow): void;
  /** Replaces the earlier rejection of the name. */
  rejectName(rejected: RejectedName, event: EventRow): void;
  allowName(release: Pick<RejectedName, 'name' | 'version'>, event: EventRow): void;
  /** Replaces all of them. */
  setPauses(pauses: readonly Pause[], events?: readonly EventRow[]): void;
  /** Records what must be known of them after a restart. They may be lost with the database. */
  setSightings(sightings: Sightings): void;
  /** It is set before the pull, so that a crash can't lose it, and cleared if the pull fails. */
  setPulledByUs(reference: string, isPulledByUs: boolean): void;
  /** `media`: plugged in at the cancellation; undefined resumes the preloads. */
  cancel(bundleIds: readonly BundleId[], media: readonly MediumId[] | undefined, event: EventRow): void;
  /** The media that have stayed plugged in. Adds no event. */
  setCancelledMedia(bundleId: BundleId, media: readonly MediumId[]): void;
  /**
   * Also requests the activation of the bundle `next`.
   *
   * @param why what is shown once that is done, and whether a person did it
   */
  rollBack(
    bundleId: BundleId,
    event: EventRow,
    next: { readonly bundleId: BundleId; readonly event: EventRow },
    why: RollbackWhy,
  ): void;
  /** The times since which each condition of each bundle has its status. No I/O. */
  conditions(): ReadonlyMap<BundleId, ConditionMarks>;
  /** Replaces the marks of these bundles. Adds no event. */
  setConditions(changed: ReadonlyMap<BundleId, ConditionMarks>): void;
  /** The oldest tag comes first. No I/O. */
  tagsGiven(): readonly TagGiven[];
  /** Replaces all of them. Adds no event. */
  setTagsGiven(given: readonly TagGiven[]): void;
}

export interface RevocationStore {
  /** @throws AppError `bundle/revocation-record` (`wait`) when it is damaged */
  revocationRecord(): RevocationRecord | undefined;
  /** @param event set when a person caused the change */
  setRevocationRecord(record: RevocationRecord, event?: EventRow): void;
  /** Adds what another database refuses: rejections, and keys that bundles revoked. */
  addRefusals(trust: TrustState, at: number): void;
}

/** A new start of a stream (`stickpin trust reset`). */
export interface StreamStore {
  /** Forgets the keys that its bundles added, and their sequence and time. */
  resetStream(stream: string, event: EventRow): void;
}

/** `loss`: the remains of a lost state, until their consequences are recorded. */
export type DocumentName =
  | 'floors'
  | 'pins'
  | 'hooks'
  | 'revocations'
  | 'speakers'
  | 'hidden-revocations'
  | 'loss'
  | 'pauses'
  | 'sightings';

/** Small documents of the state. */
export interface DocumentStore {
  document(name: DocumentName): string | undefined;
  /** @throws AppError `store/…` as a change of {@link StateStore} */
  setDocument(name: DocumentName, content: string): void;
}

export type Store = StateStore & RevocationStore & StreamStore & DocumentStore;

export interface FloorStore {
  /** The floors at the start of the daemon. No I/O. */
  load(): Floors;
  /** Whether they are stored like this. */
  isWhole(): boolean;
  /** Durable. @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`) */
  save(floors: Floors, signal: AbortSignal): Promise<void>;
}

export interface PinLedgerStore {
  /** The ledger at the start of the daemon. It is undefined when nothing could be read. No I/O. */
  load(): PinLedger | undefined;
  /** Durable when it resolves. @throws AppError `store/write`, `store/no-space` (`retry`) */
  save(ledger: PinLedger, signal: AbortSignal): Promise<void>;
}
