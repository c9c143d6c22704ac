import type { Digest } from '../domain/model/digest.ts';
import type { ExpectedImage, ImageContent } from '../domain/model/image.ts';

/** One check of images. What is found of a blob counts for all images that share it. */
export interface ContentCheck {
  /**
   * Checks one image. It changes nothing.
   *
   * @param onBytes called repeatedly with the number of bytes read since the last call
   * @throws AppError `runtime/unreachable` and others of the runtime room when the runtime does not
   *   answer
   */
  check(image: ExpectedImage, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<ImageContent>;
}

/** Looks at what the runtime keeps of images. */
export interface ContentPort {
  /** Begins a check. */
  openContentCheck(): ContentCheck;
  /**
   * Makes the runtime forget blobs that were found damaged, so that the next pull transfers them.
   * Idempotent. Does nothing where the runtime has no such call.
   *
   * @throws AppError `runtime/unreachable` and others of the runtime room
   */
  forgetContent(digests: readonly Digest[], signal: AbortSignal): Promise<void>;
}

/**
 * Remembers over boots whether the content of images is to be checked: after a boot before which
 * the daemon was not stopped.
 */
export interface BootMark {
  /** No I/O. */
  isCheckDue(): boolean;
  /**
   * Durable when it resolves.
   *
   * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`); it counts until
   *   the daemon ends
   */
  setCheckDue(isDue: boolean, signal: AbortSignal): Promise<void>;
}
