import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { BundleReader } from '../../../src/bundle/read/bundle-reader.ts';
import { boundedBundle, MEDIUM_CALLS } from '../../../src/media/loaded-media.ts';
import { Places } from '../../../src/platform/async/concurrency.ts';
import { digestOf } from '../../../src/platform/digest.ts';

const DIGEST = digestOf('a layer');
const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A bundle on a medium that hangs while it is told to, and how many calls of it are under way. */
function hangingMedium() {
  const hung: (() => void)[] = [];
  let isHanging = true;
  let most = 0;
  let closed = 0;
  const call = async <T>(result: T): Promise<T> => {
    if (isHanging) {
      const answered = new Promise<void>((resolve) => void hung.push(resolve));
      most = Math.max(most, hung.length);
      await answered;
    }
    return result;
  };
  const reader: BundleReader = {
    path: '/medium/bundle',
    hold: async (run) => {
      await call(undefined);
      return run();
    },
    readFile: () => call(Buffer.from('{}')),
    sizeOf: () => call(7),
    async *read() {
      try {
        yield await call(Buffer.from('a '));
        yield await call(Buffer.from('layer'));
      } finally {
        closed += 1;
      }
    },
  };
  const answer = (): void => {
    isHanging = false;
    for (const resolve of hung.splice(0)) resolve();
  };
  const bounded = boundedBundle({ reader, blobs: reader }, new Places(MEDIUM_CALLS.ofOne));
  return { ...bounded, answer, hung: () => hung.length, most: () => most, closed: () => closed };
}

async function contentOf(source: Pick<BundleReader, 'read'>, signal = never): Promise<string> {
  let text = '';
  for await (const chunk of source.read(DIGEST, 0, signal)) text += chunk.toString();
  return text;
}

describe('a bundle on a medium that hangs', () => {
  it('has no more calls under way than its medium may, however often it is tried', async () => {
    const { blobs, reader, ...medium } = hangingMedium();
    for (let attempt = 0; attempt < 4; attempt += 1) {
      const stop = new AbortController();
      const calls = [
        contentOf(blobs, stop.signal),
        contentOf(blobs, stop.signal),
        contentOf(reader, stop.signal),
        blobs.sizeOf(DIGEST, stop.signal),
        reader.sizeOf(DIGEST, stop.signal),
        reader.readFile('index.json', 10, stop.signal),
      ];
      await settled();
      stop.abort(new Error('stalled'));
      for (const call of calls) await expect(call).rejects.toThrow('stalled');
    }
    expect([medium.most(), medium.hung()]).toEqual([MEDIUM_CALLS.ofOne, MEDIUM_CALLS.ofOne]);
  });

  it('is read again when it answers, and closes the files of calls that were given up', async () => {
    const { blobs, reader, ...medium } = hangingMedium();
    const stop = new AbortController();
    const given = Array.from({ length: MEDIUM_CALLS.ofOne }, () => contentOf(blobs, stop.signal));
    await settled();
    stop.abort(new Error('stalled'));
    for (const call of given) await expect(call).rejects.toThrow('stalled');
    const held = reader.hold(() => Promise.all([contentOf(blobs), reader.sizeOf(DIGEST, never), contentOf(reader)]));
    await settled();
    expect(medium.closed()).toBe(0);
    medium.answer();
    expect(await held).toEqual(['a layer', 7, 'a layer']);
    expect(medium.closed()).toBe(MEDIUM_CALLS.ofOne + 2);
  });

  it('takes no place for a stream whose consumer waits, and gives back that of a failed call', async () => {
    const { blobs, reader, answer } = hangingMedium();
    answer();
    const streams = Array.from({ length: 5 }, () => blobs.read(DIGEST, 0, never)[Symbol.asyncIterator]());
    for (const stream of streams) await stream.next();
    for (let attempt = 0; attempt < 4; attempt += 1) {
      const failing = reader.hold(() => Promise.reject(new Error('not held')));
      await expect(failing).rejects.toThrow('not held');
    }
    expect(await contentOf(blobs)).toBe('a layer');
    for (const stream of streams) await stream.return?.();
  });
});

it('leaves threads to the daemon when all places of media hang', () => {
  const [, threads] =
    /^Environment=UV_THREADPOOL_SIZE=(\d+)$/m.exec(readFileSync('systemd/stickpin.service', 'utf8')) ?? [];
  expect(Number(threads)).toBeGreaterThan(MEDIUM_CALLS.ofAll);
});
