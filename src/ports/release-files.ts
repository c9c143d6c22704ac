import type { BundleId, Digest } from '../domain/model/digest.ts';

/** The attached files of releases on the node's own disk, a folder each. */
export interface ReleaseFiles {
  /**
   * The folders that are ours, and whose files lie in each: `<name>/<version>`, and
   * `<name>-<version>` of an earlier version of stickpin.
   */
  list(signal: AbortSignal): Promise<ReadonlyMap<string, BundleId>>;
  /**
   * Makes a folder hold exactly these files, streamed one after the other and checked against their
   * digests. It appears as a whole or not at all, also in place of an earlier one.
   *
   * @throws AppError `store/attachment` (`wait`) one is damaged; `store/no-space`,
   * `store/release-files` (`retry`).
   */
  lay(folder: string, bundleId: BundleId, files: readonly ReleaseFile[], signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/release-files` (`retry`) */
  remove(folder: string, signal: AbortSignal): Promise<void>;
  /**
   * Gives a folder another name, at one stroke. One of ours that has the name goes before. @throws
   * AppError `store/release-files` (`retry`)
   */
  move(from: string, to: string, signal: AbortSignal): Promise<void>;
}

/** One file of a release, of any size. */
export interface ReleaseFile {
  /** A plain file name. */
  readonly name: string;
  readonly digest: Digest;
  /** Its bytes, in chunks of at most 1 MiB, from wherever they are. */
  read(signal: AbortSignal): AsyncIterable<Buffer>;
  /** As {@link DocumentStore.linkTo}: false where it has to be read. */
  linkTo(path: string, signal: AbortSignal): Promise<boolean>;
}
