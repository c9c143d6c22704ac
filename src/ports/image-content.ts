import type { Digest } from '../domain/model/digest.ts';
import type { ExpectedImage, ImageContent } from '../domain/model/image.ts';

/** One check of images. A result for a blob counts for all images that share it. */
export interface ContentCheck {
  /**
   * Changes nothing.
   *
   * @param onBytes called repeatedly with the number of bytes read since the last call
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  check(image: ExpectedImage, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<ImageContent>;
}

export interface ContentPort {
  openContentCheck(): ContentCheck;
  /**
   * Makes the runtime forget damaged blobs, so that the next pull transfers them. Idempotent. Does
   * nothing where the runtime has no such call.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  forgetContent(digests: readonly Digest[], signal: AbortSignal): Promise<void>;
}

/** Records over boots whether images are to be checked: after a boot without a clean shutdown. */
export interface BootMark {
  /** No I/O. */
  isCheckDue(): boolean;
  /**
   * Durable when it resolves.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`); the value counts
   *   until the daemon ends
   */
  setCheckDue(isDue: boolean, signal: AbortSignal): Promise<void>;
}
