import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readTable, wholeLines } from '../../../../src/registry/peers/tcp-table.ts';

describe('wholeLines', () => {
  it('joins a line that is cut at any place, and gives each once', () => {
    const text = 'first line\nsecond\n\nthird\n';
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(text.length), (a, b) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        const lines = [...wholeLines([text.slice(0, from), text.slice(from, to), text.slice(to)])];
        expect(lines.join('')).toBe(text);
        for (const some of lines) expect(some).toMatch(/^(.*\n)*$/);
      }),
    );
  });

  it('leaves out a last line that is not ended', () => {
    expect([...wholeLines(['a\nb', 'c\nd'])]).toEqual(['a\n', 'bc\n']);
  });
});

describe('readTable', () => {
  it('gives the table of this machine, with its heading', async () => {
    let text = '';
    for await (const lines of readTable('/proc/net/tcp')) text += lines;
    expect(text).toMatch(/^ *sl +local_address/);
  });
});
