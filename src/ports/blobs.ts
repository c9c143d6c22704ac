import type { VerifiedBundle } from '../domain/model/bundle.ts';
import type { BundleId, Digest } from '../domain/model/digest.ts';
import type { FoundBundle } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { Allocate } from '../platform/files/file-access.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** Mounted folders, the drop folder and the local stores are blob sources. */
export interface BlobSource {
  /** The size in bytes. Returns undefined when the blob is absent. */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /**
   * The bytes from `startByte` to the end, in chunks of at most 1 MiB, at the consumer's pace.
   *
   * @param allocate returns the buffer for a chunk; a source may ignore it
   * @throws AppError `media/gone` (`wait`), `media/read` (`retry`)
   */
  read(digest: Digest, startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
}

/** A blob source whose content changes, such as the union of all plugged media. */
export interface ChangingBlobSource extends BlobSource {
  onChange(listener: () => void): Unsubscribe;
}

/** `damaged`: the bytes have another digest. */
export type CopyFault = 'damaged' | 'unreadable';

export interface BlobCopy {
  /** The name for people: the label of a medium, or the node's disk. */
  readonly label: string;
  /** The path relative to the root of the medium. Absent for the node's disk. */
  readonly file?: string;
  /** It is false after the copy was found bad, until its source changes. */
  readonly isTrusted: boolean;
  /** {@link BlobSource.read} from this source only. */
  read(startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /** Until its source changes, the copy is used only while there is no other copy. */
  distrust(fault: CopyFault): void;
}

/** All blob sources as one, with access to each copy. */
export interface BlobUnion extends ChangingBlobSource {
  /** The copies in the order in which {@link BlobSource.read} uses them. */
  copiesOf(digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]>;
}

/** Keeps documents (manifests, indexes, configs) and attachments on the node's disk. */
export interface DocumentStore extends BlobSource {
  /** Reads the disk only the first time. @throws AppError `store/blob` (`retry`) */
  list(signal: AbortSignal): Promise<ReadonlySet<Digest>>;
  /** Idempotent; crash-safe. @throws AppError `store/no-space` or `store/blob` (`retry`) */
  put(digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(digest: Digest, signal: AbortSignal): Promise<void>;
}

/** Keeps attachments among the documents; they may be as large as a layer. */
export interface AttachmentStore {
  /**
   * {@link DocumentStore.put} for a blob of any size, which is never in memory as a whole. It gets
   * its name when all bytes are right. The next call continues an interrupted copy, also after a
   * restart.
   * @param read as {@link BlobSource.read}
   * @throws AppError `store/no-space`, `store/blob` (`retry`); errors of `read`
   */
  putStream(
    blob: { readonly digest: Digest; readonly sizeBytes: number },
    read: (startByte: number) => AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<void>;
  /** Makes `path` a hard link. Returns false for small blobs and if the filesystem has no links. */
  linkTo(digest: Digest, path: string, signal: AbortSignal): Promise<boolean>;
}

export interface LayerWriter {
  /** The first byte that {@link write} expects. {@link replay} gives the bytes before it. */
  readonly startByte: number;
  /**
   * The stored bytes before the `startByte` of the writer, so that no medium need be read for them.
   * Call it before the first write. If `allocate` returns the same buffer again, a chunk is valid
   * until the next one is read.
   * @throws AppError `store/blob` (`retry`) when they can't be read; then the layer is not kept
   */
  replay(signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /** Never throws: after a failed write or an abort the writer ends. */
  write(chunk: Buffer, signal: AbortSignal): Promise<void>;
  /** Whether all bytes came with a wrong digest. Valid once `write()` has returned its promise. */
  isDamaged(): boolean;
  /** Keeps the bytes so far. Idempotent. Has no signal: after an abort the file is closed too. */
  close(): Promise<void>;
}

export interface LayerInventory {
  /** Complete layers that are still there. @throws AppError `store/blob` (`retry`) */
  list(signal: AbortSignal): Promise<ReadonlySet<Digest>>;
  /** How many bytes there are of each incomplete layer. @throws AppError `store/blob` (`retry`) */
  parts(signal: AbortSignal): Promise<ReadonlyMap<Digest, number>>;
  /** Whether the store is on the filesystem of `path`. Returns false when unknown. */
  isBeside(path: string, signal: AbortSignal): Promise<boolean>;
}

export interface LayerCopies {
  /** Sets the layers to keep. {@link begin} refuses others. */
  want(digests: ReadonlySet<Digest>): void;
  /**
   * Starts or resumes a layer.
   * @param startByte offset of the first byte that the caller needs. Default: the end of the stored
   * part
   * @returns undefined when the layer is not wanted, exists, or is being written; when there is no
   * space; or when bytes before `startByte` are missing
   * @throws only the reason of `signal`
   */
  begin(
    digest: Digest,
    sizeBytes: number,
    startByte: number | undefined,
    signal: AbortSignal,
  ): Promise<LayerWriter | undefined>;
  /** Why nothing can be kept now. It is undefined if the last layer was kept, or none came. */
  trouble(): Fault | undefined;
  /** Removes all other layers. @throws AppError `store/blob` (`retry`) */
  retain(digests: ReadonlySet<Digest>, signal: AbortSignal): Promise<number>;
}

export type LayerStore = ChangingBlobSource & LayerInventory & LayerCopies;

/**
 * The envelope, `contents.json` and `index.json` of bundles on the node's disk. With the manifests
 * and configs beside them they prove a release when its records are lost.
 */
export interface SignedBundles {
  /** Reads the disk only the first time. @throws AppError `store/blob` (`retry`) */
  list(signal: AbortSignal): Promise<ReadonlySet<BundleId>>;
  /** Whether a plugged medium has the bundle, so that {@link keep} can work. No I/O. */
  isPlugged(bundleId: BundleId): boolean;
  /**
   * Keeps those of a verified bundle on a plugged medium. Idempotent; crash-safe.
   *
   * @throws AppError `media/gone` (`wait`), `media/read` (`retry`), `store/no-space`, `store/blob`
   *   (`retry`)
   */
  keep(bundleId: BundleId, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(bundleId: BundleId, signal: AbortSignal): Promise<void>;
  /** Judges a bundle with the keys in force now, as one on a stick. */
  judge(bundleId: BundleId, signal: AbortSignal): Promise<FoundBundle>;
  /** What a kept bundle says, with any signer. It is undefined if its documents are damaged. */
  unproven(bundleId: BundleId, signal: AbortSignal): Promise<VerifiedBundle | undefined>;
}

/** The attached files of releases on the node's disk, in separate folders. */
export interface ReleaseFiles {
  /**
   * The bundle of each of our folders: `<name>/<version>` or `<name>/<version>@<digits of the
   * digest>`.
   */
  list(signal: AbortSignal): Promise<ReadonlyMap<string, BundleId>>;
  pathOf(folder: string): string;
  /**
   * Makes a folder hold exactly these files, checked against their digests. The folder appears or
   * is replaced in one step.
   *
   * @throws AppError `store/attachment` (`wait`) when one is damaged; `store/no-space`,
   *   `store/release-files` (`retry`)
   */
  install(folder: string, bundleId: BundleId, files: readonly ReleaseFile[], signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/release-files` (`retry`) */
  remove(folder: string, signal: AbortSignal): Promise<void>;
}

export interface ReleaseFile {
  readonly name: string;
  readonly digest: Digest;
  /** Yields chunks of at most 1 MiB. */
  read(signal: AbortSignal): AsyncIterable<Buffer>;
  /** See {@link AttachmentStore.linkTo}. */
  linkTo(path: string, signal: AbortSignal): Promise<boolean>;
}
