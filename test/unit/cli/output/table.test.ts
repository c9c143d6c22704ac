import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wantsColour } from '../../../../src/cli/output/colour.ts';
import { barWithText, formatStacked, formatTable } from '../../../../src/cli/output/table.ts';
import { wrapLines } from '../../../../src/cli/output/text.ts';

const word = fc.stringMatching(/^[a-z0-9@.:/-]{1,30}$/);
const cell = fc.array(word, { maxLength: 12 }).map((words) => words.join(' '));
const wordsOf = (text: string) => text.split(/\s+/).filter((one) => one !== '');

describe('a table on a terminal', () => {
  it('stays within the width, loses nothing and breaks no word', () => {
    const rows = fc.array(fc.array(cell, { minLength: 4, maxLength: 4 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(rows, fc.integer({ min: 40, max: 200 }), (cells, columns) => {
        const header = ['NAME', 'STATE', 'SIZE', 'TEXT'];
        const text = formatTable(header, cells, { columns });
        for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
        const titles = new Set([...header, ...header.map((title) => title.toLowerCase())]);
        const ownWords = (all: readonly string[]) => all.filter((word) => !titles.has(word)).sort();
        expect(ownWords(wordsOf(text))).toEqual(ownWords(cells.flat().flatMap(wordsOf)));
      }),
    );
  });

  it('wraps the widest column, and is as wide as the terminal', () => {
    const rows = [['ok', 'one two three four five six seven']];
    expect(formatTable(['', 'FOUND'], rows, { columns: 22 })).toBe(
      '    FOUND\nok  one two three four\n    five six seven\n',
    );
    expect(formatTable(['', 'FOUND'], rows, { columns: 80 })).toBe(
      '    FOUND\nok  one two three four five six seven\n',
    );
  });

  it('continues rows on indented lines, with the titles of their cells, where words are too wide', () => {
    const digest = `sha256:${'a'.repeat(64)}`;
    expect(formatTable(['KEY', 'STATE'], [[digest, 'trusted by nobody']], { columns: 80 })).toBe(
      `${digest}\n    state trusted by nobody\n`,
    );
  });

  it('puts two words of a cell below each other, rather than not to align its row', () => {
    const bundle = 'b'.repeat(60);
    const rows = [
      [bundle, 'activated (current)', '8.0 GiB'],
      ['ocp@1', 'ready', '8.0 GiB'],
    ];
    expect(formatTable(['BUNDLE', 'PHASE', 'SIZE'], rows, { columns: 80 })).toBe(
      [
        `BUNDLE${' '.repeat(56)}PHASE      SIZE`,
        `${bundle}  activated  8.0 GiB`,
        `${' '.repeat(62)}(current)`,
        `ocp@1${' '.repeat(57)}ready      8.0 GiB`,
        '',
      ].join('\n'),
    );
  });

  it('has one line a row where nobody looks at it, however long', () => {
    expect(formatTable(['A', 'B'], [['x '.repeat(60).trim(), 'y']]).split('\n')).toHaveLength(3);
  });

  it('has colours only where they are wanted, around the text and not around the blanks', () => {
    const rows = [[{ text: 'FAULT', tone: 'bad' as const }, 'keys']];
    expect(formatTable(['', 'WHAT'], rows, { columns: 80, hasColour: true })).toContain(
      '\u001b[1;31mFAULT\u001b[0m  keys\n',
    );
    expect(formatTable(['', 'WHAT'], rows, { columns: 80 })).not.toContain('\u001b');
    expect(wantsColour({})).toBe(true);
    expect(wantsColour({ NO_COLOR: '' })).toBe(true);
    expect(wantsColour({ NO_COLOR: '1' })).toBe(false);
    expect(wantsColour({ TERM: 'dumb' })).toBe(false);
  });
});

describe('a bar', () => {
  const text = '5.1 of 16.0 GiB, 84 MiB/s, about 2 min 10 s left';

  it('gives way to its text, so that the time left is never cut', () => {
    for (let columns = 10; columns < 120; columns += 1) {
      const line = barWithText(0.31, text, columns);
      expect(line.endsWith(text)).toBe(true);
      expect(line.length).toBeLessThanOrEqual(Math.max(columns, text.length));
    }
    expect(barWithText(0.31, text, 80)).toBe(`[#######................] 31 %  ${text}`);
    expect(barWithText(0.31, text, 50)).toBe(text);
  });
});

describe('long lines', () => {
  it('are broken at blanks only, with an indent', () => {
    expect(wrapLines('a bb ccc dddd\nx', 6, 2)).toBe('a bb\n  ccc\n  dddd\nx');
    expect(wrapLines('  a bb ccc', 6, 2)).toBe('  a bb\n    ccc');
    expect(wrapLines('a bb', undefined)).toBe('a bb');
  });
});

describe('a table with long texts', () => {
  const rows = [
    ['damaged', 'ocp@4.13.7', 'quay.example.com/ocp/etcd', 'it is truncated', 'plug in the stick of the release'],
    ['whole', 'ocp@4.13.7', 'quay.example.com/ocp/api', 'all is well', ''],
  ];
  const titles = ['RESULT', 'RELEASE', 'IMAGE', 'FOUND', 'NEXT'];

  it('is aligned where there is room', () => {
    expect(formatStacked(titles, rows, 3)).toBe(formatTable(titles, rows));
  });

  it('has them below each row on a narrow terminal, all rows alike', () => {
    expect(formatStacked(titles, rows, 3, { columns: 40 })).toBe(
      [
        'RESULT   RELEASE',
        'damaged  ocp@4.13.7',
        '    image: quay.example.com/ocp/etcd',
        '    found: it is truncated',
        '    next: plug in the stick of the',
        '      release',
        'whole    ocp@4.13.7',
        '    image: quay.example.com/ocp/api',
        '    found: all is well',
        '',
      ].join('\n'),
    );
  });
});
