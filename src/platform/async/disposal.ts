/** Releases one resource. */
export type Dispose = () => void | Promise<void>;

/** Resources to release, the last one first. */
export interface DisposalStack {
  /** Adds a resource. `what` names it in an error. */
  defer(what: string, dispose: Dispose): void;
  /**
   * Releases all in reverse order. Each failure is passed to `onError`, and the others are still
   * released.
   */
  dispose(onError: (what: string, error: unknown) => void): Promise<void>;
}

/** A new, empty {@link DisposalStack}. */
export function createDisposalStack(): DisposalStack {
  const entries: { what: string; dispose: Dispose }[] = [];
  return {
    defer: (what, dispose) => {
      entries.push({ what, dispose });
    },
    dispose: async (onError) => {
      for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
        try {
          await entry.dispose();
        } catch (error) {
          onError(entry.what, error);
        }
      }
    },
  };
}
