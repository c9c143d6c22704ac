/**
 * Processes `items`, at most `atOnce` in parallel, and yields the results in the order of the
 * items. The first error in that order ends it. Before it ends, also when the consumer stops, it
 * waits for all running work.
 */
export async function* inOrder<Item, Result>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Awaited<Result>, void, undefined> {
  const inHand: Promise<Result>[] = [];
  const begin = (item: Item): void => {
    const one = work(item);
    // The await below throws its error; until then it must not count as unhandled.
    one.catch(() => undefined);
    inHand.push(one);
  };
  try {
    for (const item of items) {
      begin(item);
      if (inHand.length < atOnce) continue;
      const [oldest] = inHand.splice(0, 1);
      if (oldest !== undefined) yield await oldest;
    }
    for (let oldest = inHand.shift(); oldest !== undefined; oldest = inHand.shift()) yield await oldest;
  } finally {
    await Promise.allSettled(inHand);
  }
}
