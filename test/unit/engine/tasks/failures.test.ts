import { describe, expect, it } from 'vitest';
import { FailureLedger, type RetryPolicy, retryOf } from '../../../../src/engine/tasks/tasks.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const task = { kind: 'pull', bundleId: digestOf('bundle'), reference: 'quay.example.com/etcd' } as const;
const reason = { code: 'x', message: 'x' };

/** The waits before the next tries, in milliseconds, of `count` failures in a row. */
function waits(retry: RetryPolicy, count: number): (number | undefined)[] {
  const ledger = new FailureLedger(() => 0);
  return Array.from({ length: count }, () => ledger.note(task, reason, retry, 0).retryAt);
}

describe('failure ledger', () => {
  it('backs off: one second doubling to ten, five tries, then every five minutes', () => {
    expect(waits('backoff', 7)).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 300_000, 300_000]);
  });

  it("tries every ten seconds while a disk can't be written", () => {
    expect(waits('space', 8)).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000]);
    for (const code of ['runtime/no-space', 'runtime/read-only', 'store/no-space', 'store/read-only']) {
      expect(retryOf({ code, message: 'full' })).toBe('space');
    }
    expect(retryOf({ code: 'runtime/pull-failed', message: 'EIO' })).toBe('backoff');
  });

  it('spreads only the quick tries, by up to a quarter', () => {
    const ledger = new FailureLedger(() => 1);
    const all = Array.from({ length: 6 }, () => ledger.note(task, reason, 'backoff', 0).retryAt);
    expect(all).toEqual([750, 1_500, 3_000, 6_000, 7_500, 300_000]);
    expect(ledger.note(task, reason, 'settling', 0).retryAt).toBe(300);
  });

  it.each<[RetryPolicy, number | undefined]>([
    ['backoff', 6],
    ['space', 6],
    ['settling', 36],
    ['observed', undefined],
    ['person', 1],
    ['media', 1],
  ])('states when the quick tries of %s are used up', (retry, at) => {
    const ledger = new FailureLedger(() => 0);
    const all = Array.from({ length: 50 }, () => ledger.note(task, reason, retry, 0).isExhausted);
    expect(all.indexOf(true)).toBe((at ?? 0) - 1);
  });

  it('retries every five minutes when a person must act', () => {
    expect(waits('person', 3)).toEqual([300_000, 300_000, 300_000]);
  });

  it('counts from one again after a runtime has settled', () => {
    const ledger = new FailureLedger(() => 0);
    for (let tries = 0; tries < 7; tries += 1) ledger.note(task, reason, 'settling', 0);
    expect(ledger.note(task, reason, 'backoff', 0)).toMatchObject({ attempts: 1, retryAt: 1_000 });
    expect(ledger.note(task, reason, 'backoff', 0)).toMatchObject({ attempts: 2, retryAt: 2_000 });
  });

  it('gives a runtime that settles thirty quick tries, then backs off', () => {
    const all = waits('settling', 37);
    expect(all.slice(0, 30)).toEqual(Array.from({ length: 30 }, () => 300));
    expect(all.slice(30)).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 300_000, 300_000]);
  });

  it('observes again twice a second, then every ten seconds', () => {
    expect(waits('observed', 12)).toEqual([...Array.from({ length: 10 }, () => 500), 10_000, 10_000]);
  });

  it('waits for other media when only they can repair a failure', () => {
    expect(waits('media', 2)).toEqual([undefined, undefined]);
  });

  it('counts each task separately, an image once for all bundles, forgets a task that succeeded, and all tasks with new media', () => {
    const ledger = new FailureLedger(() => 0);
    const other = { ...task, reference: `${task.reference}-other` };
    const activation = { kind: 'activate', bundleId: digestOf('bundle') } as const;
    for (const one of [task, { ...task, bundleId: digestOf('other') }, other, activation])
      ledger.note(one, reason, 'backoff', 5_000);
    expect(ledger.list().map(({ attempts, retryAt }) => [attempts, retryAt])).toEqual([
      [2, 7_000],
      [1, 6_000],
      [1, 6_000],
    ]);
    ledger.succeeded(task);
    expect(ledger.last(task)).toBeUndefined();
    expect(ledger.last(other)?.attempts).toBe(1);
    ledger.forgetAll();
    expect(ledger.list()).toEqual([]);
  });
});
