/**
 * Caches the last call of a pure function of a text, for files that are often read and seldom
 * change. The result is shared; don't modify it.
 */
export function rememberLast<T>(work: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly result: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, result: work(text) };
    return last.result;
  };
}
