import type { Digest } from '../domain/model/digest.ts';
import type { Allocate } from '../platform/files/file-access.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/**
 * A source of blobs: has it a digest, and what are the bytes from an offset. Mounted folders, the
 * drop folder and the local stores are blob sources.
 */
export interface BlobSource {
  /** Size of the blob in bytes. Undefined when it is absent. */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /**
   * The bytes from `startByte` to the end, in chunks of at most 1 MiB, at the consumer's pace.
   *
   * @param allocate returns the buffer for a chunk. Default: a new one for each. A source may
   *   ignore it
   * @throws AppError `media/gone` (`wait`) when the source disappeared before or during the read;
   *   `media/read` (`retry`) on a read error
   */
  read(digest: Digest, startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
}

/** A blob source whose content changes, such as the union of all plugged media. */
export interface ChangingBlobSource extends BlobSource {
  /** Calls `listener` when the offered blobs may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/** The fault of a copy: its bytes have another digest, or they can't be read. */
export type CopyFault = 'damaged' | 'unreadable';

/** A copy of a blob in one source. */
export interface BlobCopy {
  /** Text for people: the label of a medium, or the node's own disk. */
  readonly label: string;
  /** The file, relative to the root of the medium. Absent for the node's own disk. */
  readonly file?: string;
  /** False after the copy was found bad, until its source changes. */
  readonly isTrusted: boolean;
  /** As {@link BlobSource.read}, from this source only. */
  read(startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /**
   * Marks the copy as bad. Until its source changes, it is used only while there is no other copy.
   */
  distrust(fault: CopyFault): void;
}

/** All blob sources as one, with access to each copy. */
export interface BlobUnion extends ChangingBlobSource {
  /** All copies of a blob, in the order in which {@link BlobSource.read} uses them. */
  copiesOf(digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]>;
}

/** Keeps documents (manifests, indexes, configs) and attachments on the node's own disk. */
export interface DocumentStore extends BlobSource {
  /**
   * The digests of all files, by their names. Reads the disk only the first time. @throws AppError
   * `store/blob` (`retry`)
   */
  list(signal: AbortSignal): Promise<ReadonlySet<Digest>>;
  /** Idempotent; crash-safe. @throws AppError `store/no-space` or `store/blob` (`retry`) */
  put(digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(digest: Digest, signal: AbortSignal): Promise<void>;
}

/** Keeps attachments among the documents; they may be as large as a layer. */
export interface AttachmentStore {
  /**
   * As {@link DocumentStore.put} for a blob of any size, which is never in memory as a whole.
   * Nothing has its name before all bytes are there and right. A copy that `read` cut is continued
   * by the next call, also after a restart.
   *
   * @param read the bytes from `startByte` to the end, as {@link BlobSource.read}
   * @throws AppError `store/no-space`, `store/blob` (`retry`); what `read` throws
   */
  putStream(
    blob: { readonly digest: Digest; readonly sizeBytes: number },
    read: (startByte: number) => AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Makes `path` another name of a large blob that is there and whole, so that it takes no more
   * room. False for any other blob, and where the filesystem has no hard links: it has to be read.
   * A blob whose bytes have changed is removed.
   */
  linkTo(digest: Digest, path: string, signal: AbortSignal): Promise<boolean>;
}

/** Writes a layer while it is transferred. */
export interface LayerWriter {
  /**
   * The offset of the first byte that {@link write} expects. {@link replay} gives the bytes before
   * it.
   */
  readonly startByte: number;
  /**
   * The bytes from the `startByte` of {@link LayerStore.begin} up to the `startByte` of the writer.
   * They are on the disk, so no medium need be read for them. Call it before the first write. If
   * `allocate` returns the same buffer again, a chunk is valid until the next one is read.
   *
   * @throws AppError `store/blob` (`retry`) when they can't be read; then the layer is not kept
   */
  replay(signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /**
   * Writes the next bytes. Never throws: after a failed write the writer ends, and the layer is not
   * kept. After an abort nothing is written, and the writer is closed.
   */
  write(chunk: Buffer, signal: AbortSignal): Promise<void>;
  /**
   * Whether all bytes were written and their digest is wrong. Then the layer is not kept. Known
   * when `write()` has returned its promise.
   */
  isDamaged(): boolean;
  /**
   * Ends the writer. The next {@link LayerCopies.begin} resumes from the bytes so far. Idempotent.
   * Takes no signal, because the file must be closed after an abort too.
   */
  close(): Promise<void>;
}

/** Lists the layers on the node's own disk. */
export interface LayerInventory {
  /** Complete layers. @throws AppError `store/blob` (`retry`) */
  list(signal: AbortSignal): Promise<ReadonlySet<Digest>>;
  /** Whether the store is on the filesystem of `path`. False when that is not known. */
  isBeside(path: string, signal: AbortSignal): Promise<boolean>;
}

/** Writes and removes layers on the node's own disk. */
export interface LayerCopies {
  /** Sets the layers to keep. {@link begin} refuses others. */
  want(digests: ReadonlySet<Digest>): void;
  /**
   * Starts or resumes to write a layer. @param startByte offset of the first byte that the caller
   * needs. Default: the end of the part that is there
   *
   * @returns undefined when the layer is not wanted, exists, or is being written; when there is no
   *   space; or when bytes before `startByte` are missing
   * @throws whatever aborted `signal`, and nothing else
   */
  begin(
    digest: Digest,
    sizeBytes: number,
    startByte: number | undefined,
    signal: AbortSignal,
  ): Promise<LayerWriter | undefined>;
  /**
   * Removes all other layers. Resolves to the number of removed complete ones. @throws AppError
   * `store/blob` (`retry`)
   */
  retain(digests: ReadonlySet<Digest>, signal: AbortSignal): Promise<number>;
}

/** All of the store of layers, for the composition root. */
export type LayerStore = ChangingBlobSource & LayerInventory & LayerCopies;
