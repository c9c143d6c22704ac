import type { BlobSource } from '../ports/blobs.ts';
import type { ContainersPort, ContentPort, RuntimePort } from '../ports/runtime.ts';

export interface RuntimeAdapter extends RuntimePort, ContainersPort, ContentPort {
  /** Compressed blobs. Throws AppError `runtime/…`; a read the error of the connection. */
  readonly storedBlobs?: BlobSource;
  /** Has what {@link storedBlobs} lacks. Bytes are unchecked. Throws AppError and system errors. */
  readonly storedDocuments?: BlobSource;
  /**
   * A path on each filesystem with images. It is empty when not reported. Throws AppError
   * `runtime/…`.
   */
  storagePaths(signal: AbortSignal): Promise<readonly string[]>;
  /** Running calls fail. */
  close(): void;
}
