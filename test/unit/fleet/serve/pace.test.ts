import { expect, it } from 'vitest';
import { Pace } from '../../../../src/fleet/serve/served-nodes.ts';

const signal = new AbortController().signal;

it('lets all callers together send at the rate, after a small burst', async () => {
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: async (ms: number) => {
      nowMs += ms;
    },
  };
  const pace = new Pace(1_000, clock);
  await pace.take(250, signal);
  expect(nowMs).toBe(0);
  await pace.take(500, signal);
  expect(nowMs).toBe(500);
  await pace.take(500, signal);
  expect(nowMs).toBe(1_000);
});

it('does not save up what was not used', async () => {
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: async (ms: number) => {
      nowMs += ms;
    },
  };
  const pace = new Pace(1_000, clock);
  await pace.take(1, signal);
  nowMs = 100_000;
  await pace.take(1_250, signal);
  expect(nowMs).toBe(101_000);
});
