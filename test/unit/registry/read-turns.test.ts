import { describe, expect, it } from 'vitest';
import type { Allocate } from '../../../src/platform/files/file-access.ts';
import { type ReadTurn, ReadTurns } from '../../../src/registry/read-turns.ts';

const MIB = 1024 * 1024;
const never = new AbortController().signal;

/** Turns on a clock that moves with `advance()`, whose sleeps end with `pass()`. */
function makeTurns() {
  let pass: () => void = () => undefined;
  const timers: AbortSignal[] = [];
  const sleep = (_ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      timers.push(signal);
      pass = resolve;
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  let now = 0;
  const advance = (ms: number) => {
    now += ms;
  };
  return { turns: new ReadTurns({ sleep, monotonic: () => now }), pass: () => pass(), timers, advance };
}

/** A stream of chunks as large as they may be, each of which ends when the test says so. */
function reader(turn: ReadTurn, signal = never, mostBytes = MIB) {
  const asked: { sizeBytes: number; end: (error?: Error) => void }[] = [];
  let closed = 0;
  async function* open(allocate: Allocate) {
    try {
      for (;;) {
        const chunk = allocate(MIB).subarray(0, mostBytes);
        await new Promise<void>((resolve, reject) => {
          asked.push({ sizeBytes: chunk.length, end: (error) => (error === undefined ? resolve() : reject(error)) });
        });
        yield chunk;
      }
    } finally {
      closed += 1;
    }
  }
  const chunks = turn.read(open, signal)[Symbol.asyncIterator]();
  return { chunks, asked, closed: () => closed };
}

/** Lets everything happen that waits for nothing but its turn in the event loop. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('read turns', () => {
  it('lets the oldest transfer read large chunks, and later ones small chunks after the running read', async () => {
    const { turns } = makeTurns();
    const [first, second] = [reader(turns.begin()), reader(turns.begin())];
    const chunk = first.chunks.next();
    const later = second.chunks.next();
    await settle();
    expect([first.asked.length, second.asked.length]).toEqual([1, 0]);
    first.asked[0]?.end();
    await chunk;
    await settle();
    expect(second.asked).toHaveLength(1);
    second.asked[0]?.end();
    await later;
    expect([first.asked[0]?.sizeBytes, second.asked[0]?.sizeBytes]).toEqual([MIB, MIB / 4]);
  });

  it.each([
    { transfers: 64, mostBytes: 9 * MIB },
    { transfers: 512, mostBytes: 33 * MIB },
  ])('gives smaller buffers to $transfers parallel transfers', async ({ transfers, mostBytes }) => {
    const { turns } = makeTurns();
    const all = Array.from({ length: transfers }, () => reader(turns.begin()));
    // The oldest last, so that nobody waits for it.
    for (const { chunks } of all.toReversed()) void chunks.next();
    await settle();
    const sizes = all.map(({ asked }) => asked[0]?.sizeBytes ?? Number.NaN);
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(MIB / 16);
    expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(mostBytes);
  });

  it.each([
    { what: 'while the medium is fast', readMs: 1, isTurnTaken: false },
    { what: 'while it is slow', readMs: 10, isTurnTaken: true },
  ])('lets a later transfer wait and read small chunks: $what, $isTurnTaken', async ({ readMs, isTurnTaken }) => {
    const { turns, advance } = makeTurns();
    const [first, second] = [reader(turns.begin()), reader(turns.begin())];
    for (let at = 0; at < 60; at += 1) {
      const chunk = first.chunks.next();
      await settle();
      advance(readMs);
      first.asked[at]?.end();
      await chunk;
    }
    void first.chunks.next();
    void second.chunks.next();
    await settle();
    expect(second.asked).toHaveLength(isTurnTaken ? 0 : 1);
    first.asked.at(-1)?.end();
    await settle();
    expect(second.asked[0]?.sizeBytes).toBe(isTurnTaken ? MIB / 4 : MIB);
  });

  it('never lets the oldest transfer wait, and no transfer for one that waits for the runtime', async () => {
    const { turns } = makeTurns();
    const [first, second] = [reader(turns.begin()), reader(turns.begin())];
    void second.chunks.next();
    await settle();
    expect(second.asked).toHaveLength(1);
    void first.chunks.next();
    await settle();
    expect(first.asked).toHaveLength(1);
  });

  it('waits only a limited time for a read that hangs', async () => {
    const { turns, pass } = makeTurns();
    const [first, second] = [reader(turns.begin()), reader(turns.begin())];
    void first.chunks.next();
    void second.chunks.next();
    await settle();
    pass();
    await settle();
    expect(second.asked).toHaveLength(0);
    pass();
    await settle();
    expect(second.asked).toHaveLength(1);
  });

  it.each([
    { what: 'of 64 KiB, which hang', readMs: 20_000, sizeBytes: MIB / 16, mostWaits: 1 },
    { what: 'of 64 KiB, each within the longest wait', readMs: 900, sizeBytes: MIB / 16, mostWaits: 2 },
    { what: 'of a byte', readMs: 300, sizeBytes: 1, mostWaits: 4 },
  ])('does not wait on and on for slow reads $what', async ({ readMs, sizeBytes, mostWaits }) => {
    const { turns, pass, advance } = makeTurns();
    const [slow, fast] = [reader(turns.begin(), never, sizeBytes), reader(turns.begin())];
    let waits = 0;
    for (let at = 0; at < 100; at += 1) {
      const slowChunk = slow.chunks.next();
      await settle();
      advance(1);
      const chunk = fast.chunks.next();
      await settle();
      if (fast.asked.length <= at) waits += 1;
      for (let tick = 0; tick < 2; tick += 1) {
        if (fast.asked.length <= at) advance(Math.min(500, readMs / 2));
        pass();
        await settle();
      }
      fast.asked[at]?.end();
      await chunk;
      advance(readMs);
      slow.asked[at]?.end();
      await slowChunk;
    }
    expect(waits).toBeLessThanOrEqual(mostWaits);
    // The medium of the others counts as fast, since only its own reads are measured.
    expect(fast.asked.at(-1)?.sizeBytes).toBe(MIB);
  });

  it('makes a wait that begins just before a tick last until the next tick', async () => {
    const { turns, pass } = makeTurns();
    const [first, second, third] = [reader(turns.begin()), reader(turns.begin()), reader(turns.begin())];
    void first.chunks.next();
    void second.chunks.next();
    await settle();
    pass();
    await settle();
    void third.chunks.next();
    await settle();
    pass();
    await settle();
    expect([second.asked.length, third.asked.length]).toEqual([1, 0]);
    pass();
    await settle();
    expect(third.asked).toHaveLength(1);
  });

  it('uses one timer for all waits, which continues after the first wait has ended', async () => {
    const { turns, pass, timers } = makeTurns();
    const stop = new AbortController();
    const [first, second, third] = [reader(turns.begin()), reader(turns.begin(), stop.signal), reader(turns.begin())];
    void first.chunks.next();
    const begun = second.chunks.next();
    const left = expect(begun).rejects.toThrow('client left');
    void third.chunks.next();
    await settle();
    stop.abort(new Error('client left'));
    await left;
    await settle();
    expect([timers.length, timers[0]?.aborted, third.asked.length]).toEqual([1, false, 0]);
    pass();
    await settle();
    pass();
    await settle();
    expect(third.asked).toHaveLength(1);
  });

  it('cancels its timer when the last transfer is over, and sets one again', async () => {
    const { turns, pass, timers } = makeTurns();
    const own = [turns.begin(), turns.begin()] as const;
    const [first, second] = [reader(own[0]), reader(own[1])];
    void first.chunks.next();
    void second.chunks.next();
    await settle();
    own[0].end();
    expect(timers.map(({ aborted }) => aborted)).toEqual([false]);
    own[1].end();
    await settle();
    expect(timers.map(({ aborted }) => aborted)).toEqual([true]);
    const next = [reader(turns.begin()), reader(turns.begin())] as const;
    void next[0].chunks.next();
    void next[1].chunks.next();
    await settle();
    expect([timers.length, next[1].asked.length]).toEqual([2, 0]);
    pass();
    await settle();
    pass();
    await settle();
    expect(next[1].asked).toHaveLength(1);
  });

  it('makes the next transfer the oldest one when a transfer ends, even while its read hangs', async () => {
    const { turns } = makeTurns();
    const turn = turns.begin();
    const [first, second] = [reader(turn), reader(turns.begin())];
    void first.chunks.next();
    await settle();
    turn.end();
    void second.chunks.next();
    await settle();
    expect(second.asked.map(({ sizeBytes }) => sizeBytes)).toEqual([MIB]);
  });

  it('continues after a failed read of an older transfer, which alone gets the error', async () => {
    const { turns } = makeTurns();
    const [first, second] = [reader(turns.begin()), reader(turns.begin())];
    const failed = expect(first.chunks.next()).rejects.toThrow('EIO');
    void second.chunks.next();
    await settle();
    first.asked[0]?.end(new Error('EIO'));
    await failed;
    await settle();
    expect(second.asked).toHaveLength(1);
  });

  it('ends its wait when it is aborted, and closes its stream', async () => {
    const { turns } = makeTurns();
    const stop = new AbortController();
    const [first, second] = [reader(turns.begin()), reader(turns.begin(), stop.signal)];
    const begun = second.chunks.next();
    await settle();
    second.asked[0]?.end();
    await begun;
    void first.chunks.next();
    const waiting = expect(second.chunks.next()).rejects.toThrow('client left');
    await settle();
    stop.abort(new Error('client left'));
    await waiting;
    expect([second.asked.length, second.closed()]).toEqual([1, 1]);
  });

  it('closes its stream when the consumer stops', async () => {
    const { turns } = makeTurns();
    const only = reader(turns.begin());
    const chunk = only.chunks.next();
    await settle();
    only.asked[0]?.end();
    await chunk;
    await only.chunks.return?.();
    expect(only.closed()).toBe(1);
  });
});
