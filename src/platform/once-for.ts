/** Computes once for each object. INVARIANT: the object never changes. */
export function onceFor<K extends object, V>(compute: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, { readonly value: V }>();
  return (of) => {
    const before = known.get(of);
    if (before !== undefined) return before.value;
    const value = compute(of);
    known.set(of, { value });
    return value;
  };
}
