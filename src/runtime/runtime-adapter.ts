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
  /**
   * On each filesystem where it keeps images. Empty when it does not say. Throws AppError
   * `runtime/…`.
   */
  storagePaths(signal: AbortSignal): Promise<readonly string[]>;
  /** Running calls fail. */
  close(): void;
}

/** One source of signals, which runs only while there are listeners. */
export class SharedSignals {
  private readonly listeners = new Set<{ readonly call: () => void }>();
  private stop: Unsubscribe | undefined;

  /** `start` is called with the first listener; its result after the last one is removed. */
  constructor(private readonly start: (notify: () => void) => Unsubscribe) {}

  add(call: () => void): Unsubscribe {
    const entry = { call };
    this.listeners.add(entry);
    this.stop ??= this.start(() => {
      for (const each of this.listeners) each.call();
    });
    return () => {
      this.listeners.delete(entry);
      if (this.listeners.size > 0) return;
      this.stop?.();
      this.stop = undefined;
    };
  }
}
