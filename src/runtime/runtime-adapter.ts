import type { BlobSource } from '../ports/blobs.ts';
import type { ContentPort } from '../ports/image-content.ts';
import type { ContainersPort, RuntimePort } from '../ports/runtime.ts';

/** A {@link RuntimePort} with open connections. */
export interface RuntimeAdapter extends RuntimePort, ContainersPort, ContentPort {
  /**
   * The compressed blobs that the runtime still has. Absent where it keeps none. Throws AppError
   * `runtime/…`; a read fails with the error of the connection as it is.
   */
  readonly storedBlobs?: BlobSource;
  /**
   * The manifests, indexes and configs of its images, where {@link storedBlobs} has none. Their
   * bytes are not checked. It throws AppError `runtime/…` and system errors.
   */
  readonly storedDocuments?: BlobSource;
  /** Closes the connections. Running calls fail. */
  close(): void;
}
