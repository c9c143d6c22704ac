/**
 * What the engine and the registry need of the world. Adapters in media/, runtime/, registry/, store/ and host/ implement these; only the
 * composition root knows which.
 */
import type { Verdict } from '../domain/approval.ts';
import type { BadBlob } from '../domain/bad-blob.ts';
import type { VerifiedBundle } from '../domain/bundle.ts';
import type { ConditionMarks } from '../domain/condition.ts';
import type { BundleId, Digest } from '../domain/digest.ts';
import type { Floors } from '../domain/floor-set.ts';
import type { KeyRotation, Revocations } from '../domain/key-rotation.ts';
import type { Medium, MediumId, Reason } from '../domain/medium.ts';
import type { PinLedger } from '../domain/pin-ledger.ts';
import type { RevocationRecord } from '../domain/revocation-record.ts';
import type { RuleCode } from '../domain/rule-code.ts';
import type { BootTime, RuntimeContainer } from '../domain/runtime-container.ts';
import type { RuntimeImage, RuntimeObservation } from '../domain/runtime-image.ts';
import type { Signers } from '../domain/signers.ts';
import type { Soak } from '../domain/soak.ts';
import type { Stored, TagGiven } from '../domain/state.ts';
import type { TrustInForce } from '../domain/trust-in-force.ts';
import type { Allocate } from '../platform/chunk-buffer.ts';

/** Stops a subscription. */
export type Unsubscribe = () => void;

/**
 * Answers "have you this digest, and stream it from byte N". A mounted directory, the drop folder and the local blob store are blob
 * sources today; another node will be one tomorrow.
 */
export interface BlobSource {
  /** Size in bytes of the blob here, or undefined when it isn't. Never throws for an absent blob. */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /**
   * The bytes from `startByte` to the end, in chunks of at most 1 MiB, at the consumer's pace.
   *
   * @param allocate gives the buffer that a chunk is read into; default a new one for each. A source may do without.
   * @throws AppError `media/gone` (`wait`) when the source went away before or while reading; `media/read` (`retry`) on a read error.
   */
  read(digest: Digest, startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
}

/** A blob source that comes and goes, as the union over all plugged media does. */
export interface ChangingBlobSource extends BlobSource {
  /** Calls `listener` whenever what is offered may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/** What is wrong with a copy of a blob: its bytes have another digest, or they can't be read. */
export type CopyFault = 'damaged' | 'unreadable';

/** One of the places that have a blob. */
export interface BlobCopy {
  /** For people: the label of a medium, or the node's own disk. */
  readonly label: string;
  /** The file on the medium, relative to its root; absent on the node's own disk. */
  readonly file?: string;
  /** False once it was found bad and nothing has changed there since. */
  readonly isTrusted: boolean;
  /** As {@link BlobSource.read}, from this place alone. */
  read(startByte: number, signal: AbortSignal): AsyncIterable<Buffer>;
  /** It was found bad. Until what lies there changes, the blob is taken from there only while nothing else has it. */
  distrust(fault: CopyFault): void;
}

/** Everything that offers blobs, as one source and each copy for itself. */
export interface BlobUnion extends ChangingBlobSource {
  /** Every copy of a blob: the one that {@link BlobSource.read} takes first, then what it would take next. */
  copiesOf(digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]>;
}

/** What is plugged in. Adapters hold the state of each medium in memory; nothing of it is stored. */
export interface MediaPort {
  /** Everything plugged in now, in the order of arrival. No I/O. */
  list(): readonly Medium[];
  /** Whether all that was plugged in when the daemon started is listed by now. No I/O. */
  isLookedAt(): boolean;
  /**
   * Looks whether what was mounted still is: a medium that somebody unmounted becomes `unmounted`, one that somebody mounted elsewhere `attached`.
   * Costs one read of a file of the kernel; never throws but for an abort.
   */
  refresh(signal: AbortSignal): Promise<void>;
  /** Mounts an `attached` medium read-only. A failure is not thrown but becomes its state `failed`. Idempotent. */
  mount(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /** Finds and judges the bundles of a `mounted` or `read` medium; it becomes `read` or `failed`. Idempotent. */
  read(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /** Calls `listener` when a medium came, went or changed its state. */
  onChange(listener: () => void): Unsubscribe;
}

/** Where one repository is to be found while a preload runs. */
export interface Mirror {
  /** `registry/path` without tag or digest: `quay.io/coreos/etcd`. */
  readonly repository: string;
}

/** The container runtime. Every method is idempotent. */
export interface RuntimePort {
  /** Images, pins and mirrors as they are now. Not reachable is an answer, not an error. */
  observe(signal: AbortSignal): Promise<RuntimeObservation>;
  /**
   * Makes exactly `references` the pins that are ours. CRI-O: renders the drop-in (with the pins that others configured) and reloads if
   * bytes changed or `force`; it counts only when a later {@link observe} reports the images pinned. containerd: labels those that are present.
   */
  applyPins(references: readonly string[], options: { readonly force: boolean }, signal: AbortSignal): Promise<void>;
  /** Makes our registry the first source of exactly these repositories; an empty list takes every mirror of ours away. */
  applyMirrors(mirrors: readonly Mirror[], signal: AbortSignal): Promise<void>;
  /**
   * CRI `PullImage` of `reference` (by digest, or `registry/repo:tag` at activation). Aborting cancels the call.
   *
   * @throws AppError with a {@link PullErrorCode}.
   */
  pull(reference: string, signal: AbortSignal): Promise<void>;
  /**
   * The image that has this name (`registry/repo:tag`, or by digest) now; undefined when none has.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  image(name: string, signal: AbortSignal): Promise<RuntimeImage | undefined>;
  /** Takes one name (`registry/repo:tag`) off its image; the image stays under its other names where the runtime can do so. */
  removeTag(tag: string, signal: AbortSignal): Promise<void>;
  /** Calls `listener` when the runtime came, went or its configuration changed on disk. */
  onChange(listener: () => void): Unsubscribe;
}

/** Containers of the runtime, and the removal of what is not needed any more. Every method is idempotent. */
export interface ContainersPort {
  /** Every container in whatever state. @throws AppError `runtime/unreachable` and others of the runtime room */
  containers(signal: AbortSignal): Promise<readonly RuntimeContainer[]>;
  /** Removes an exited container. */
  removeContainer(containerId: string, signal: AbortSignal): Promise<void>;
  /** Removes the image of this id with all its names. */
  removeImage(imageId: string, signal: AbortSignal): Promise<void>;
}

/** Why a pull failed, as far as the runtime's status tells. */
export type PullErrorCode =
  | 'runtime/unreachable'
  /** Its unit is being stopped. Nothing failed: the pull is made again when it runs. */
  | 'runtime/stopping'
  | 'runtime/no-space'
  | 'runtime/read-only'
  | 'runtime/digest-mismatch'
  | 'runtime/not-found'
  | 'runtime/policy'
  | 'runtime/cancelled'
  | 'runtime/pull-failed';

/** systemd units over D-Bus, as far as the runtime adapters need them. */
export interface UnitControl {
  /** `ReloadUnit(name, "replace")`; resolves when the job is done. @throws AppError `host/unit` (`retry`) */
  reloadUnit(unit: string, signal: AbortSignal): Promise<void>;
  /** Calls `listener` when the unit's `ActiveState` or main process changed, with the `ActiveState` where that is known. */
  onUnitChange(unit: string, listener: (activeState?: string) => void): Unsubscribe;
}

/** What the registry saw since the daemon started. */
export interface TransferMeter {
  /** Bytes of blobs sent to the runtime, all in all. */
  totalBytes(): number;
  /** The furthest byte sent of each blob, since the start or since it was forgotten. */
  sentBytes(): ReadonlyMap<Digest, number>;
  forget(digest: Digest): void;
  /**
   * Blobs whose last transfer was seen to give bytes with another digest than theirs. Seen of layers alone that are kept while they pass by, since
   * nothing else is hashed here.
   */
  damaged(): ReadonlySet<Digest>;
  /**
   * How often this manifest of this repository (`quay.io/coreos/etcd`) was asked for by its digest; a pull that does not raise it never reached
   * our mirror. By digest, since all images of a release may lie in one repository.
   */
  manifestRequests(repository: string, digest: Digest): number;
  /** Transfers that wait for their medium to come back. */
  waiting(): number;
  /** How the transfers of these blobs stand, taken together. */
  flow(digests: readonly Digest[]): BlobFlow;
  /** Blobs and manifests of a repository that were asked for by digest and that nothing offered. */
  unknownRequests(repository: string): { readonly count: number; readonly last: Digest | undefined };
}

/** How the transfers of some blobs stand. */
export interface BlobFlow {
  /** Bytes sent since the daemon started, whether or not for the first time. */
  readonly sentBytes: number;
  /** Transfers that were ever opened. */
  readonly opened: number;
  /** Transfers that are open now. */
  readonly open: number;
  /** Open ones that wait for their medium to come back. */
  readonly awaitingMedium: number;
  /** Open ones that wait for the runtime to take what was sent. */
  readonly awaitingRuntime: number;
}

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
  setBrought(reference: string, isBrought: boolean): void;
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

/** Keeps small documents (manifests, indexes, configs) on the node's own disk. */
export interface DocumentStore extends BlobSource {
  /** What is there by its name; nothing is read for it after the first time. @throws AppError `store/blob` (`retry`) */
  list(): Promise<ReadonlySet<Digest>>;
  /** Idempotent; crash-safe. @throws AppError `store/no-space` or `store/blob` (`retry`) */
  put(digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(digest: Digest): Promise<void>;
}

/** Takes a layer as it passes by. */
export interface LayerWriter {
  /** The byte that {@link write} expects first. Those before it, from where it was begun, are had by {@link replay}. */
  readonly startByte: number;
  /**
   * What was written before, from the byte where it was begun up to `startByte`: no medium needs to be read for it again. To be read before anything is written. A
   * chunk is good until the next is asked for if `allocate` gives the same buffer again.
   *
   * @throws AppError `store/blob` (`retry`) when it can't be read; then it is not kept.
   */
  replay(signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /** The next bytes. Never throws: what can't be written ends the writer, and the layer is not kept. */
  write(chunk: Buffer): Promise<void>;
  /** Whether all bytes came and have another digest than the layer: then it is not kept. Known as soon as `write()` has returned, before its promise is kept. */
  isDamaged(): boolean;
  /** No more bytes come; what there is so far is gone on with at the next {@link LayerStore.begin}. Idempotent. */
  close(): Promise<void>;
}

/** Keeps layers on the node's own disk. */
export interface LayerStore extends ChangingBlobSource {
  /** Layers that are there as a whole. @throws AppError `store/blob` (`retry`) */
  list(): Promise<ReadonlySet<Digest>>;
  /** Whether they lie on the filesystem of `path`; false when that can't be told. */
  isBeside(path: string): Promise<boolean>;
  /** Which layers are to be kept: no other one is begun. */
  want(digests: ReadonlySet<Digest>): void;
  /**
   * Begins to write a layer, or goes on where it was left. Bytes from `startByte` on are wanted; by default those from where it was left.
   *
   * @returns undefined when it is not wanted, is there or being written already, when there is no room, or when the bytes before `startByte` lack.
   */
  begin(digest: Digest, sizeBytes: number, startByte?: number): Promise<LayerWriter | undefined>;
  /** Removes every layer but these; resolves to how many were removed. @throws AppError `store/blob` (`retry`) */
  retain(digests: ReadonlySet<Digest>): Promise<number>;
}

/** The attached files of releases on the node's own disk, a folder each. */
export interface ReleaseFiles {
  /** The folders that are ours, and whose files lie in each: `<name>/<version>`, and `<name>-<version>` of an earlier version of stickpin. */
  list(signal: AbortSignal): Promise<ReadonlyMap<string, BundleId>>;
  /**
   * Makes a folder hold exactly these files, read one after the other and checked against their digests. It appears as a whole or not at all, also
   * in place of an earlier one.
   *
   * @throws AppError `store/attachment` (`wait`) one is damaged; `store/no-space`, `store/release-files` (`retry`).
   */
  lay(folder: string, bundleId: BundleId, files: readonly ReleaseFile[], signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/release-files` (`retry`) */
  remove(folder: string, signal: AbortSignal): Promise<void>;
  /** Gives a folder another name, at one stroke. One of ours that has the name goes before. @throws AppError `store/release-files` (`retry`) */
  move(from: string, to: string, signal: AbortSignal): Promise<void>;
}

/** One file of a release: at most 16 MiB. */
export interface ReleaseFile {
  /** A plain file name. */
  readonly name: string;
  readonly digest: Digest;
  read(signal: AbortSignal): Promise<Buffer>;
}

/** The keys that count now. */
export interface TrustPort {
  /** Changes whenever what a bundle on a medium is judged by does: the keys, the threshold, approvals where they are enough. */
  revision(): string;
  /** The keys that never count. */
  revocations(): Revocations;
  /** All that bundles are judged by, to be shown. */
  inForce(): TrustInForce;
}

/** What the node is. */
export interface NodePort {
  /** GOARCH: `amd64`, `arm64`, `ppc64le`, `s390x`. */
  readonly arch: string;
  /** Whether the clock is synchronised with an outside source; false when that can't be found out. */
  clockSynchronised(signal: AbortSignal): Promise<boolean>;
  /** The time since the machine booted, sleep included. */
  boot(): BootTime;
}

/** Tells systemd how it goes: sd_notify(3). Without `NOTIFY_SOCKET` every call does nothing. */
export interface ServiceNotifier {
  ready(): void;
  /** One line, no newline; an unchanged line is not sent again. */
  status(line: string): void;
  reloading(): void;
  stopping(): void;
}
