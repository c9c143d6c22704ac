import type { Digest } from '../domain/model/digest.ts';
import type { Allocate } from '../platform/files/chunk-buffer.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/**
 * Answers "have you this digest, and stream it from byte N". A mounted directory, the drop folder
 * and the local blob store are blob sources today; another node will be one tomorrow.
 */
export interface BlobSource {
  /**
   * Size in bytes of the blob here, or undefined when it isn't. Never throws for an absent blob.
   */
  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined>;
  /**
   * The bytes from `startByte` to the end, in chunks of at most 1 MiB, at the consumer's pace.
   *
   * @param allocate gives the buffer that a chunk is read into; default a new one for each. A
   *   source may do without.
   * @throws AppError `media/gone` (`wait`) when the source went away before or while reading;
   *   `media/read` (`retry`) on a read error.
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
  /**
   * It was found bad. Until what lies there changes, the blob is taken from there only while
   * nothing else has it.
   */
  distrust(fault: CopyFault): void;
}

/** Everything that offers blobs, as one source and each copy for itself. */
export interface BlobUnion extends ChangingBlobSource {
  /**
   * Every copy of a blob: the one that {@link BlobSource.read} takes first, then what it would take
   * next.
   */
  copiesOf(digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]>;
}

/** Keeps documents (manifests, indexes, configs) and attachments on the node's own disk. */
export interface DocumentStore extends BlobSource {
  /**
   * What is there by its name; nothing is read for it after the first time. @throws AppError
   * `store/blob` (`retry`)
   */
  list(): Promise<ReadonlySet<Digest>>;
  /** Idempotent; crash-safe. @throws AppError `store/no-space` or `store/blob` (`retry`) */
  put(digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void>;
  /**
   * As `put` for a blob of any size, which is never in memory as a whole. Nothing has its name
   * before all bytes are there and right.
   *
   * @throws AppError `store/no-space`, `store/blob` (`retry`); what `chunks` throws
   */
  putStream(
    blob: { readonly digest: Digest; readonly sizeBytes: number },
    chunks: AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<void>;
  /**
   * Makes `path` another name of a large blob that is there and whole, so that it takes no more
   * room. False for any other blob, and where the filesystem has no hard links: it has to be read.
   * A blob whose bytes have changed is removed.
   */
  linkTo(digest: Digest, path: string, signal: AbortSignal): Promise<boolean>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(digest: Digest): Promise<void>;
}

/** Takes a layer as it passes by. */
export interface LayerWriter {
  /**
   * The byte that {@link write} expects first. Those before it, from where it was begun, are had by
   * {@link replay}.
   */
  readonly startByte: number;
  /**
   * What was written before, from the byte where it was begun up to `startByte`: no medium needs to
   * be read for it again. To be read before anything is written. A chunk is good until the next is
   * asked for if `allocate` gives the same buffer again.
   *
   * @throws AppError `store/blob` (`retry`) when it can't be read; then it is not kept.
   */
  replay(signal: AbortSignal, allocate?: Allocate): AsyncIterable<Buffer>;
  /**
   * The next bytes. Never throws: what can't be written ends the writer, and the layer is not kept.
   */
  write(chunk: Buffer): Promise<void>;
  /**
   * Whether all bytes came and have another digest than the layer: then it is not kept. Known as
   * soon as `write()` has returned, before its promise is kept.
   */
  isDamaged(): boolean;
  /**
   * No more bytes come; what there is so far is gone on with at the next {@link LayerStore.begin}.
   * Idempotent.
   */
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
   * Begins to write a layer, or goes on where it was left. Bytes from `startByte` on are wanted; by
   * default those from where it was left.
   *
   * @returns undefined when it is not wanted, is there or being written already, when there is no
   *   room, or when the bytes before `startByte` lack.
   */
  begin(digest: Digest, sizeBytes: number, startByte?: number): Promise<LayerWriter | undefined>;
  /**
   * Removes every layer but these; resolves to how many were removed. @throws AppError `store/blob`
   * (`retry`)
   */
  retain(digests: ReadonlySet<Digest>): Promise<number>;
}
