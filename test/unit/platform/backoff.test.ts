import { expect, it } from 'vitest';
import { Backoff, pauseAfter } from '../../../src/platform/backoff.ts';

const PAUSES = { firstMs: 500, longestMs: 3_000 };

it('doubles the pause with each failure up to the longest one', () => {
  expect([0, 1, 2, 3, 4, 5, 10_000].map((failures) => pauseAfter(failures, PAUSES))).toEqual([
    ...[0, 500, 1_000, 2_000, 3_000, 3_000, 3_000],
  ]);
});

it('begins anew after a success', () => {
  const backoff = new Backoff(PAUSES);
  expect([backoff.failed(), backoff.failed()]).toEqual([500, 1_000]);
  backoff.succeeded();
  expect(backoff.failed()).toBe(500);
});
