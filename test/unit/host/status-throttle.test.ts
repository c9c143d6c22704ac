import { beforeEach, describe, expect, it } from 'vitest';
import { StatusThrottle } from '../../../src/host/notify.ts';

describe('the throttle of STATUS', () => {
  let now: number;
  let sleeps: { readonly until: number; readonly wake: () => void }[];
  let sent: string[];
  let stop: AbortController;
  let throttle: StatusThrottle;

  beforeEach(() => {
    [now, sleeps, sent, stop] = [0, [], [], new AbortController()];
    const sleep = (ms: number, signal: AbortSignal) =>
      new Promise<void>((wake, reject) => {
        sleeps.push({ until: now + ms, wake });
        signal.addEventListener('abort', () => reject(new Error('stopped')));
      });
    throttle = new StatusThrottle({ monotonic: () => now, sleep }, stop.signal, (line) => sent.push(`${now} ${line}`));
  });

  const advance = async (ms: number) => {
    now += ms;
    const due = sleeps.filter(({ until }) => until <= now);
    sleeps = sleeps.filter(({ until }) => until > now);
    for (const { wake } of due) wake();
    await new Promise((resolve) => setImmediate(resolve));
  };

  it('sends the first line at once, then at most one a second, and always the last one', async () => {
    for (let at = 0; at < 25; at += 1) {
      throttle.set(`line ${at}`);
      await advance(100);
    }
    await advance(1_000);
    await advance(1_000);
    expect(sent).toEqual(['0 line 0', '1000 line 9', '2000 line 19', '3500 line 24']);
    expect(sleeps).toEqual([]);
  });

  it('sends nothing that is unchanged, also not when it was something else meanwhile', async () => {
    throttle.set('a');
    throttle.set('b');
    throttle.set('a');
    await advance(1_000);
    throttle.set('a');
    expect(sent).toEqual(['0 a']);
  });

  it('sends what waits when it is flushed, and nothing after its end', async () => {
    throttle.set('a');
    throttle.set('b');
    throttle.flush();
    throttle.set('c');
    stop.abort();
    await advance(5_000);
    expect(sent).toEqual(['0 a', '0 b']);
  });
});
