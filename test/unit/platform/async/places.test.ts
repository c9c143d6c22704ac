import { describe, expect, it } from 'vitest';
import { deferred } from '../../../../src/platform/async/abort.ts';
import { inPlace, Places } from '../../../../src/platform/async/concurrency.ts';

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Works that end when they are told to, and the names of those that were begun. */
function worksIn(places: Places) {
  const begun: string[] = [];
  const start = (name: string, signal = never) => {
    const { promise, resolve, reject } = deferred<string>();
    const work = () => {
      begun.push(name);
      return promise;
    };
    const result = inPlace(places, signal, work);
    result.catch(() => undefined);
    return { result, end: () => resolve(name), fail: () => reject(new Error(name)) };
  };
  return { begun, start };
}

describe('places', () => {
  it('let so many run at the same time, and the others in the order of their calls', async () => {
    const { begun, start } = worksIn(new Places(2));
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => start(name));
    await settled();
    expect(begun).toEqual(['a', 'b']);
    b?.end();
    expect(await b?.result).toBe('b');
    a?.fail();
    await expect(a?.result).rejects.toThrow('a');
    await settled();
    expect(begun).toEqual(['a', 'b', 'c', 'd']);
    c?.end();
    d?.end();
    expect(await Promise.all([c?.result, d?.result])).toEqual(['c', 'd']);
  });

  it('are free again after a work that throws at once', async () => {
    const places = new Places(1);
    const broken = () => {
      throw new Error('at once');
    };
    await expect(inPlace(places, never, broken)).rejects.toThrow('at once');
    expect(await inPlace(places, never, async () => 'next')).toBe('next');
  });

  it('stay taken by a work that was given up, until it ends', async () => {
    const { begun, start } = worksIn(new Places(1));
    const stop = new AbortController();
    const hung = start('hung', stop.signal);
    await settled();
    stop.abort(new Error('given up'));
    await expect(hung.result).rejects.toThrow('given up');
    const next = start('next');
    await settled();
    expect(begun).toEqual(['hung']);
    hung.end();
    await settled();
    expect(begun).toEqual(['hung', 'next']);
    next.end();
    await next.result;
  });

  it('are not waited for after an abort, and nothing is begun', async () => {
    const { begun, start } = worksIn(new Places(1));
    const stop = new AbortController();
    const first = start('first');
    const waiting = start('waiting', stop.signal);
    const last = start('last');
    await settled();
    stop.abort(new Error('given up'));
    await expect(waiting.result).rejects.toThrow('given up');
    await expect(start('late', stop.signal).result).rejects.toThrow('given up');
    first.end();
    await settled();
    expect(begun).toEqual(['first', 'last']);
    last.end();
  });

  it.each([
    ['after', false],
    ['before', true],
  ])('are not lost when the abort comes right %s one is given', async (_when, isAbortFirst) => {
    const places = new Places(1);
    const leave = await places.take(never);
    const stop = new AbortController();
    const waiting = places.take(stop.signal);
    const acts = [leave, () => stop.abort(new Error('given up'))];
    for (const act of isAbortFirst ? acts.reverse() : acts) act();
    const given = await waiting.catch(() => undefined);
    given?.();
    (await places.take(AbortSignal.timeout(10_000)))();
  });

  it('are places of a shared limit too', async () => {
    const all = new Places(3);
    const [one, other] = [worksIn(new Places(2, all)), worksIn(new Places(2, all))];
    const stop = new AbortController();
    const [a, b, c] = ['a', 'b', 'c'].map((name) => one.start(name));
    const [d, e] = [other.start('d'), other.start('e', stop.signal)];
    await settled();
    expect([one.begun, other.begun]).toEqual([['a', 'b'], ['d']]);
    stop.abort(new Error('given up'));
    await expect(e.result).rejects.toThrow('given up');
    a?.end();
    await settled();
    expect([one.begun, other.begun]).toEqual([['a', 'b', 'c'], ['d']]);
    d.end();
    const last = other.start('f');
    await settled();
    expect(other.begun).toEqual(['d', 'f']);
    for (const work of [b, c, last]) work?.end();
  });
});
