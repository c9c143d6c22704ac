import { describe, expect, it } from 'vitest';
import { createProgressPrinter } from '../../../../../src/cli/commands/bundle/create-progress.ts';

const MiB = 1024 * 1024;
const fetching = (position: number, bytes = 0) =>
  ({ kind: 'fetch', image: 'quay.example.com/coreos/etcd:3.5.9', position, total: 4, bytes }) as const;
const copied = (doneBytes: number) => ({ kind: 'copy', doneBytes: doneBytes * MiB, totalBytes: 400 * MiB }) as const;

/** A printer with a clock that the test sets, and all that it wrote. */
function printer(stderrColumns?: number) {
  let text = '';
  const clock = { ms: 1_000_000 };
  const made = createProgressPrinter({
    stderr: (more) => {
      text += more;
    },
    now: () => clock.ms,
    ...(stderrColumns !== undefined && { stderrColumns }),
  });
  const at = (ms: number, progress: Parameters<typeof made.onProgress>[0]) => {
    clock.ms = 1_000_000 + ms;
    made.onProgress(progress);
  };
  return { ...made, at, written: () => text };
}

describe('progress on a terminal', () => {
  it('is one line that is written again', () => {
    const { at, clear, written } = printer(100);
    at(0, fetching(2));
    at(200, fetching(2, 5 * MiB));
    at(400, copied(0));
    at(2400, copied(100));
    clear();
    expect(written().split('\r')).toEqual([
      '',
      '[########......................] 25 %  fetching 2 of 4  quay.example.com/coreos/etcd:3.5.9\u001b[K',
      '[########......................] 25 %  fetching 2 of 4, 5 MiB  quay.example.com/coreos/etcd:3.5.9\u001b[K',
      '[..............................] 0 %  copied 0 of 400 MiB\u001b[K',
      '[########......................] 25 %  copied 100 of 400 MiB, 50 MiB/s, about 6 s left\u001b[K',
      '\u001b[K',
    ]);
  });

  it('is written at most ten times a second, and at its end', () => {
    const { at, written } = printer(100);
    for (let ms = 0; ms < 1000; ms += 1) at(ms, copied(ms / 4));
    at(1000, copied(400));
    expect(written().split('\r')).toHaveLength(1 + 10 + 1);
    expect(written()).toContain('100 %  copied 400 of 400 MiB');
  });

  it('is narrower than the terminal and contains no control characters', () => {
    const { at, written } = printer(50);
    at(0, { ...fetching(1), image: 'quay.io/\n\u001b[2J' });
    const [, line] = written().split('\r');
    expect(line?.replace('\u001b[K', '')).toMatch(/^\[.{48}$/);
    expect(line?.replace('\u001b[K', '')).not.toMatch(/\p{Cc}/u);
  });

  it('clears no line where none was written', () => {
    const { clear, written } = printer(80);
    clear();
    expect(written()).toBe('');
  });
});

describe('progress without a terminal', () => {
  it('is one line for each image, and one every ten seconds while layers are copied', () => {
    const { at, clear, written } = printer();
    at(0, fetching(1));
    at(250, fetching(1, 3 * MiB));
    at(500, fetching(2));
    for (let ms = 0; ms <= 25_000; ms += 100) at(1000 + ms, copied((ms / 25_000) * 400));
    clear();
    expect(written()).toBe(
      [
        'fetching 1 of 4: quay.example.com/coreos/etcd:3.5.9',
        'fetching 2 of 4: quay.example.com/coreos/etcd:3.5.9',
        'copied 160 of 400 MiB, 16 MiB/s, about 15 s left',
        'copied 320 of 400 MiB, 16 MiB/s, about 5 s left',
        '',
      ].join('\n'),
    );
  });
});
