import { beforeEach, expect, it } from 'vitest';
import { deferred, NEVER_ABORTED, untilAborted } from '../../../../src/platform/async/abort.ts';
import { Cached } from '../../../../src/platform/async/cached.ts';

type Read = ReturnType<typeof deferred<number>> & { readonly signal: AbortSignal };
let reads: Read[];
let cached: Cached<number>;
beforeEach(() => {
  reads = [];
  cached = new Cached((signal) => {
    const read = { ...deferred<number>(), signal };
    reads.push(read);
    return untilAborted(read.promise, signal);
  });
});
const get = (signal = NEVER_ABORTED) => cached.get(signal);

it('is read once for all who ask, and kept', async () => {
  const both = Promise.all([get(), get()]);
  reads[0]?.resolve(1);
  expect(await both).toEqual([1, 1]);
  expect(await get()).toBe(1);
  expect(reads).toHaveLength(1);
});

it('is read anew after it was invalidated, also in the middle of a read', async () => {
  const before = get();
  cached.invalidate();
  const after = get();
  reads[1]?.resolve(2);
  reads[0]?.resolve(1);
  expect([await before, await after, await get()]).toEqual([1, 2, 2]);
  cached.invalidate();
  const last = get();
  reads[2]?.resolve(3);
  expect(await last).toBe(3);
});

it('goes on for others when one of them gives up', async () => {
  const stop = new AbortController();
  const impatient = get(stop.signal);
  const patient = get();
  stop.abort(new Error('too slow'));
  await expect(impatient).rejects.toThrow('too slow');
  expect(reads[0]?.signal.aborted).toBe(false);
  reads[0]?.resolve(1);
  expect([await patient, await get()]).toEqual([1, 1]);
});

it('ends when all have given up, and is read anew for the next', async () => {
  const stop = new AbortController();
  const both = [get(stop.signal), get(stop.signal)];
  stop.abort(new Error('over'));
  for (const one of both) await expect(one).rejects.toThrow('over');
  expect(reads[0]?.signal.aborted).toBe(true);
  const next = get();
  reads[1]?.resolve(2);
  expect(await next).toBe(2);
});

it('fails for all who share a read, and is read anew for the next', async () => {
  const both = [get(), get()];
  reads[0]?.reject(new Error('no medium'));
  for (const one of both) await expect(one).rejects.toThrow('no medium');
  const next = get();
  reads[1]?.resolve(2);
  expect(await next).toBe(2);
});
