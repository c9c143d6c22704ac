import type { BundleId, Digest } from '../domain/model/digest.ts';

/** The attached files of releases on the node's own disk, in folders of their own. */
export interface ReleaseFiles {
  /**
   * Our folders and the bundle of each: `<name>/<version>`, `<name>/<version>@<digits of the
   * digest>`, or `<name>-<version>` from an earlier version of stickpin.
   */
  list(signal: AbortSignal): Promise<ReadonlyMap<string, BundleId>>;
  /** The absolute path of a folder, whether or not it is there. */
  pathOf(folder: string): string;
  /**
   * Makes a folder hold exactly these files, streamed one after the other and checked against their
   * digests. It appears as a whole or not at all, also in place of an earlier one.
   *
   * @throws AppError `store/attachment` (`wait`) when one is damaged; `store/no-space`,
   *   `store/release-files` (`retry`)
   */
  install(folder: string, bundleId: BundleId, files: readonly ReleaseFile[], signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/release-files` (`retry`) */
  remove(folder: string, signal: AbortSignal): Promise<void>;
  /**
   * Renames a folder in one step. One of our folders with the new name is removed first. @throws
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
  /** As {@link AttachmentStore.linkTo}: false where it has to be read. */
  linkTo(path: string, signal: AbortSignal): Promise<boolean>;
}
