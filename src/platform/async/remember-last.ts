/**
 * A pure function of a text that remembers its last call: a file that is looked at again and again
 * seldom changes. The result is shared, and not to be changed.
 */
export function rememberLast<T>(work: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly result: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, result: work(text) };
    return last.result;
  };
}
