export type Dispose = () => void | Promise<void>;

/** The last one is released first. */
export interface DisposalStack {
  /** `what` names it in an error. */
  defer(what: string, dispose: Dispose): void;
  /** Each failure is passed to `onError`, and the others are still released. */
  dispose(onError: (what: string, error: unknown) => void): Promise<void>;
}

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
