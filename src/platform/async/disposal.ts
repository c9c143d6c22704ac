/** Undoes one thing that was set up. */
export type Dispose = () => void | Promise<void>;

/** Things to undo, last one first. */
export interface DisposalStack {
  /** Adds one more; `what` names it in the error if it fails. */
  defer(what: string, dispose: Dispose): void;
  /** Runs all of them in reverse. Each failure is handed to `onError`, and the rest still run. */
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
