import type { BundleId, Digest } from '../domain/model/digest.ts';

/** The attached files of releases on the node's own disk, in folders of their own. */
export interface ReleaseFiles {
  /**
   * The bundle of each of our folders: `<name>/<version>`, `<name>/<version>@<digits of the
   * digest>`, or `<name>-<version>` from an earlier version of stickpin.
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
  /** Replaces a folder of ours in one step. @throws AppError `store/release-files` (`retry`) */
  move(from: string, to: string, signal: AbortSignal): Promise<void>;
}

export interface ReleaseFile {
  readonly name: string;
  readonly digest: Digest;
  /** In chunks of at most 1 MiB. */
  read(signal: AbortSignal): AsyncIterable<Buffer>;
  /** As {@link AttachmentStore.linkTo}. */
  linkTo(path: string, signal: AbortSignal): Promise<boolean>;
}
