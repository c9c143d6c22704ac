import { withEither } from './abort.ts';
/**
 * Runs `work` for all items, at most `limit` in parallel. The first failure aborts the signal of
 * the others, and is thrown after all have ended.
 */
export async function forEachLimited<T>(
  items: readonly T[],
  limit: number,
  parent: AbortSignal,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failure = new AbortController();
  const rest = [...items];
  let first: { readonly error: unknown } | undefined;
  const worker = async (signal: AbortSignal): Promise<void> => {
    for (let item = rest.shift(); item !== undefined && first === undefined; item = rest.shift()) {
      try {
        await work(item, signal);
      } catch (error) {
        first ??= { error };
        failure.abort(error);
      }
    }
  };
  await withEither([parent, failure.signal], (signal) =>
    Promise.all(Array.from({ length: limit }, () => worker(signal))),
  );
  if (first !== undefined) throw first.error;
}
