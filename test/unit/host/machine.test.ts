import { expect, it } from 'vitest';
import { rememberClockAnswer } from '../../../src/host/node-facts.ts';

it('asks whether the clock is synchronised once in ten minutes, and again at once after no answer', async () => {
  const { signal } = new AbortController();
  const answers = [undefined, false, true, undefined, true];
  let timeMs = 0;
  const look = rememberClockAnswer(async () => answers.shift(), { monotonic: () => timeMs });
  const seen: unknown[] = [];
  for (const atMs of [0, 1, 2, 599_999, 600_001, 1_200_000, 1_200_001, 1_200_002]) {
    timeMs = atMs;
    seen.push([atMs, await look(signal), answers.length]);
  }
  expect(seen).toEqual([
    [0, false, 4],
    [1, false, 3],
    [2, false, 3],
    [599_999, false, 3],
    [600_001, true, 2],
    [1_200_000, true, 2],
    [1_200_001, false, 1],
    [1_200_002, true, 0],
  ]);
});
