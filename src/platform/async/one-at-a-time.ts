/** Runs `work` after all that was asked for before. The error of one does not stop the next. */
export type InTurn = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/**
 * Creates a queue that runs one work at a time, in the order of the calls. A call rejects with the
 * error of its work, or with whatever aborted its signal before its turn; then its work is not run.
 */
export function oneAtATime(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (signal, work) => {
    const result = last.then(() => {
      signal.throwIfAborted();
      return work();
    });
    last = result.catch(() => undefined); // the caller handles its error
    return result;
  };
}
