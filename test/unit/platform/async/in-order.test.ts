import fc from 'fast-check';
import { expect, it } from 'vitest';
import { inOrder } from '../../../../src/platform/async/concurrency.ts';

async function collect<T>(results: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of results) all.push(one);
  return all;
}

it('gives results in the order of the items, with at most the allowed number in work', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 5 })),
      fc.integer({ min: 1, max: 4 }),
      fc.scheduler(),
      async (items, atOnce, scheduler) => {
        let inHand = 0;
        let most = 0;
        const results = inOrder(items, atOnce, async (item) => {
          inHand += 1;
          most = Math.max(most, inHand);
          await scheduler.schedule(Promise.resolve());
          inHand -= 1;
          return item * 2;
        });
        expect(await scheduler.waitFor(collect(results))).toEqual(items.map((item) => item * 2));
        expect(most).toBeLessThanOrEqual(atOnce);
      },
    ),
  );
});

it('throws the first error in the order of the items, after all begun work has ended', async () => {
  let ended = 0;
  const results = inOrder([30, 10, 20, 0], 3, async (item) => {
    for (let turn = 0; turn < item; turn += 1) await Promise.resolve();
    ended += 1;
    if (item > 0) throw new Error(`item ${item}`);
  });
  await expect(collect(results)).rejects.toThrow('item 30');
  expect(ended).toBe(3);
});

it('waits for work in progress when the consumer stops', async () => {
  let ended = 0;
  for await (const _one of inOrder([0, 1, 2, 3, 4], 2, async () => {
    await Promise.resolve();
    ended += 1;
  })) {
    break;
  }
  expect(ended).toBe(2);
});
