import { describe, expect, it } from 'vitest';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { oneAtATime } from '../../../../src/platform/async/concurrency.ts';

describe('oneAtATime', () => {
  it('runs one task after another, in order, and returns the result of each', async () => {
    const inTurn = oneAtATime();
    const story: string[] = [];
    const work = (name: string) => async () => {
      story.push(`begin ${name}`);
      await Promise.resolve();
      story.push(`end ${name}`);
      return name;
    };
    const results = ['a', 'b'].map((name) => inTurn(NEVER_ABORTED, work(name)));
    expect(await Promise.all(results)).toEqual(['a', 'b']);
    expect(story).toEqual(['begin a', 'end a', 'begin b', 'end b']);
  });

  it('continues after an error, which only its caller gets', async () => {
    const inTurn = oneAtATime();
    const failed = inTurn(NEVER_ABORTED, () => Promise.reject(new Error('no')));
    const next = inTurn(NEVER_ABORTED, async () => 'next');
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe('next');
  });

  it('does not run a task that was aborted before its turn', async () => {
    const inTurn = oneAtATime();
    const stop = new AbortController();
    let isRun = false;
    const first = inTurn(NEVER_ABORTED, async () => stop.abort(new Error('stop')));
    const second = inTurn(stop.signal, async () => {
      isRun = true;
    });
    await first;
    await expect(second).rejects.toThrow('stop');
    expect(isRun).toBe(false);
  });
});
