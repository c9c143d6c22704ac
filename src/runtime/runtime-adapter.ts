import type { BlobSource } from '../ports/blobs.ts';
import type { ContainersPort, ContentPort, RuntimePort } from '../ports/runtime.ts';

export interface RuntimeAdapter extends RuntimePort, ContainersPort, ContentPort {
  /** Compressed blobs. Throws AppError `runtime/…`; a read the error of the connection. */
  readonly storedBlobs?: BlobSource;
  /**
   * Where {@link storedBlobs} has none. Bytes are not checked. Throws AppError and system errors.
   */
  readonly storedDocuments?: BlobSource;
  /**
   * On each filesystem where it keeps images. Empty when it does not say. Throws AppError
   * `runtime/…`.
   */
  storagePaths(signal: AbortSignal): Promise<readonly string[]>;
  /** Running calls fail. */
  close(): void;
}
