import { getEventListeners } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { untilAborted, withDeadline, withEither } from '../../../../src/platform/async/abort.ts';

const forever = (signal: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });

describe('withDeadline', () => {
  it('returns or throws what the work does', async () => {
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

  it('leaves no listener on a signal that exists as long as the daemon', async () => {
    const parent = new AbortController().signal;
    await withDeadline('it', 1_000, parent, async () => 7);
    expect(getEventListeners(parent, 'abort')).toHaveLength(0);
    // What AbortSignal.any() makes of a signal stays in a set of it for as long as the signal
    // lives.
    const dependants = Object.getOwnPropertySymbols(parent).find((key) => key.description === 'kDependantSignals');
    expect(dependants === undefined ? undefined : Reflect.get(parent, dependants)).toBeFalsy();
  });
});

describe('untilAborted', () => {
  it('returns or throws what the work does', async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(Promise.resolve(7), signal)).toBe(7);
    await expect(untilAborted(Promise.reject(new Error('bad sector')), signal)).rejects.toThrow('bad sector');
  });

  it('ends at the abort, even if the work never ends', async () => {
    const stop = new AbortController();
    const waiting = untilAborted(new Promise(() => undefined), stop.signal);
    stop.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    await expect(untilAborted(Promise.reject(new Error('late')), stop.signal)).rejects.toThrow('gone');
  });
});

describe('withEither', () => {
  it('aborts with the reason of the first aborted signal, also of one that was aborted before', async () => {
    const [first, second] = [new AbortController(), new AbortController()];
    const ended = withEither([first.signal, second.signal], (signal) =>
      untilAborted(new Promise(() => undefined), signal),
    );
    second.abort(new Error('second'));
    first.abort(new Error('first'));
    await expect(ended).rejects.toThrow('second');
    const late = withEither([new AbortController().signal, second.signal], async (signal) => signal.reason);
    expect(await late).toEqual(new Error('second'));
  });

  it('leaves no listener on its signals, whether the work ends or fails', async () => {
    const { signal } = new AbortController();
    expect(await withEither([signal, new AbortController().signal], async () => 7)).toBe(7);
    await expect(withEither([signal], () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});

it('no file of src uses AbortSignal.any(), which leaves entries on long-lived signals', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const users = files.filter((name) => /AbortSignal\s*\.any\(\[/.test(readFileSync(join('src', name), 'utf8')));
  expect(files.length).toBeGreaterThan(100);
  expect(users).toEqual([]);
});
