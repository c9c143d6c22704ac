import { describe, expect, it } from 'vitest';
import { digestFromHex } from '../../../src/domain/model/digest.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import type { Clock } from '../../../src/platform/clock.ts';
import type { ChangingBlobSource } from '../../../src/ports/blobs.ts';
import { ReadTurns } from '../../../src/registry/read-turns.ts';
import { transfer } from '../../../src/registry/transfer.ts';

const never = new AbortController().signal;
const digest = digestFromHex('ab'.repeat(32));
const GRACE_MS = 60_000;
const unreadable = () => new AppError({ code: 'media/read', message: 'EIO', disposition: 'retry' });
const gone = () => new AppError({ code: 'media/gone', message: 'sdb1 was removed', disposition: 'wait' });

/**
 * A medium that fails as `failureAt` says, by the time in milliseconds and the byte that is to be
 * read; a read gives one byte.
 */
function readFrom(failureAt: (timeMs: number, byte: number) => AppError | undefined) {
  let timeMs = 0;
  const clock: Clock = {
    now: () => timeMs,
    monotonic: () => timeMs,
    sleep: async (ms) => {
      timeMs += ms;
    },
  };
  const source: ChangingBlobSource = {
    sizeOf: async () => 4,
    onChange: () => () => undefined,
    async *read(_digest, startByte) {
      for (let byte = startByte; byte < 4; byte += 1) {
        const failure = failureAt(timeMs, byte);
        if (failure !== undefined) throw failure;
        yield Buffer.from([byte]);
      }
    },
  };
  const bytes: number[] = [];
  const deps = { source, clock, turn: new ReadTurns(clock).begin(), graceMs: GRACE_MS, onWait: () => undefined };
  const done = (async () => {
    for await (const chunk of transfer({ digest, firstByte: 0, lastByte: 3 }, deps, never)) bytes.push(...chunk);
  })();
  return { done, bytes, timeMs: () => timeMs };
}

describe('transfer', () => {
  it('waits exactly the grace time for a medium that is away', async () => {
    const { done, bytes, timeMs } = readFrom((_time, byte) => (byte === 2 ? gone() : undefined));
    await expect(done).rejects.toMatchObject({ code: 'media/gone' });
    expect([bytes, timeMs()]).toEqual([[0, 1], GRACE_MS]);
  });

  it('fails soon when a plugged medium can not be read, so that the blob is named', async () => {
    const { done, bytes, timeMs } = readFrom((_time, byte) => (byte === 2 ? unreadable() : undefined));
    await expect(done).rejects.toMatchObject({ code: 'media/read' });
    expect([bytes, timeMs()]).toEqual([[0, 1], 5_000]);
  });

  it('waits the whole grace time when a read error was the first sign of a removal', async () => {
    const back = readFrom((time, byte) =>
      byte < 2 || time > 50_000 ? undefined : time < 2_000 ? unreadable() : gone(),
    );
    await back.done;
    expect(back.bytes).toEqual([0, 1, 2, 3]);
    const away = readFrom((time, byte) => (byte < 2 ? undefined : time < 2_000 ? unreadable() : gone()));
    await expect(away.done).rejects.toMatchObject({ code: 'media/gone' });
    expect(away.timeMs()).toBe(GRACE_MS);
  });

  it('starts the grace time again for a medium that returns and can not be read at first', async () => {
    const { done, bytes } = readFrom((time, byte) =>
      byte < 2 || time > 43_000 ? undefined : time < 40_000 ? gone() : unreadable(),
    );
    await done;
    expect(bytes).toEqual([0, 1, 2, 3]);
  });

  it('starts the grace time again after each byte', async () => {
    let last = -1;
    let since = 0;
    const { done, timeMs } = readFrom((time, byte) => {
      if (byte !== last) [last, since] = [byte, time];
      return time - since < 4_000 ? unreadable() : undefined;
    });
    await done;
    expect(timeMs()).toBe(16_000);
  });
});
