import type { Unsubscribe } from '../platform/subscription.ts';
import type { BlobSource } from '../ports/blobs.ts';
import type { ContainersPort, ContentPort, RuntimePort } from '../ports/runtime.ts';

export interface RuntimeAdapter extends RuntimePort, ContainersPort, ContentPort {
  /** Compressed blobs. Throws AppError `runtime/…`; a read the error of the connection. */
  readonly storedBlobs?: BlobSource;
  /**
   * Where {@link storedBlobs} has none. Bytes are not checked. Throws AppError and system errors.
   */
  readonly storedDocuments?: BlobSource;
  /** Running calls fail. */
  close(): void;
}

/** One source of signals, which runs only while there are listeners. */
interface Listeners {
  add(listener: () => void): Unsubscribe;
}

/** `start` is called with the first listener; its result after the last one is removed. */
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
