import type { Unsubscribe } from '../platform/subscription.ts';
import type { BlobSource } from '../ports/blobs.ts';
import type { ContentPort } from '../ports/image-content.ts';
import type { ContainersPort, RuntimePort } from '../ports/runtime.ts';

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

/** Listeners for one source of signals, which runs only while there are listeners. */
interface Listeners {
  add(listener: () => void): Unsubscribe;
}

/**
 * Makes {@link Listeners}. `start` is called with the first listener; the function that it returns
 * is called when the last one is removed.
 */
export function createListeners(start: (notify: () => void) => Unsubscribe): Listeners {
  const listeners = new Set<{ readonly call: () => void }>();
  let stop: Unsubscribe | undefined;
  return {
    add: (call) => {
      const entry = { call };
      listeners.add(entry);
      stop ??= start(() => {
        for (const each of listeners) each.call();
      });
      return () => {
        listeners.delete(entry);
        if (listeners.size > 0) return;
        stop?.();
        stop = undefined;
      };
    },
  };
}
