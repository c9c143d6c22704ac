import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { untilAborted, withDeadline } from '../../../../src/platform/async/abort.ts';

const forever = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

describe('withDeadline', () => {
  it('hands through what the work returns or throws', async () => {
    const parent = new AbortController().signal;
    await expect(withDeadline('it', 1_000, parent, async () => 7)).resolves.toBe(7);
    await expect(withDeadline('it', 1_000, parent, async () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  });

  it('ends work that takes too long, names it, and aborts its signal', async () => {
    let inner: AbortSignal | undefined;
    const ended = withDeadline('the runtime', 10, new AbortController().signal, (signal) => {
      inner = signal;
      return new Promise<never>(() => undefined); // ignores its signal
    });
    await expect(ended).rejects.toMatchObject({
      code: 'platform/deadline',
      disposition: 'retry',
      message: 'the runtime did not answer within 10 ms',
    });
    expect(inner?.aborted).toBe(true);
  });

  it('ends with the reason of the parent when that aborts, before and while it works', async () => {
    const parent = new AbortController();
    const ended = withDeadline('it', 10_000, parent.signal, forever);
    parent.abort(new Error('stop'));
    await expect(ended).rejects.toThrow('stop');
    await expect(withDeadline('it', 10_000, parent.signal, async () => 7)).rejects.toThrow('stop');
  });

  it('leaves nothing behind on a signal that lives as long as the daemon', async () => {
    const parent = new AbortController().signal;
    await withDeadline('it', 1_000, parent, async () => 7);
    expect(getEventListeners(parent, 'abort')).toHaveLength(0);
    // What AbortSignal.any() makes of a signal stays in a set of it for as long as the signal lives
    // (Node 20).
    const dependants = Object.getOwnPropertySymbols(parent).find((key) => key.description === 'kDependantSignals');
    expect(dependants === undefined ? undefined : Reflect.get(parent, dependants)).toBeFalsy();
  });
});

describe('untilAborted', () => {
  it('hands on what the work gives or throws', async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(Promise.resolve(7), signal)).toBe(7);
    await expect(untilAborted(Promise.reject(new Error('bad sector')), signal)).rejects.toThrow('bad sector');
  });

  it('waits no longer than until the abort, even for work that never ends', async () => {
    const stop = new AbortController();
    const waiting = untilAborted(new Promise(() => undefined), stop.signal);
    stop.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await expect(untilAborted(Promise.reject(new Error('late')), stop.signal)).rejects.toThrow('gone');
  });
});
