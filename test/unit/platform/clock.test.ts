import { expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';

it('sleeps longer than the longest timer of the machine', async () => {
  const stop = new AbortController();
  let isOver = false;
  const sleeping = systemClock.sleep(60 * 24 * 3_600_000, stop.signal).finally(() => {
    isOver = true;
  });
  await systemClock.sleep(20, stop.signal);
  expect(isOver).toBe(false);
  stop.abort(new Error('enough'));
  await expect(sleeping).rejects.toThrow('aborted');
});
