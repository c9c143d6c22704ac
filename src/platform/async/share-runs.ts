/**
 * Lets all who ask for `work` while a run is under way share the next one. What was done before one
 * asks is seen by the run that one waits for. An error reaches everybody who shares the run.
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
