/**
 * All calls during a run share the next run. So each call waits for a run that began after the
 * call. An error goes to all callers that share the run.
 */
export function shareRuns(work: () => Promise<void>): () => Promise<void> {
  let underWay: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= underWay.then(() => {
      next = undefined;
      const run = work();
      underWay = run.catch(() => undefined); // whoever shares it hears of its error
      return run;
    });
    return next;
  };
}
