import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const PAGE = readFileSync('docs/origins.md', 'utf8');
const NUMBERS = Object.entries({ O: 21, F: 13, S: 10, C: 10, M: 8 }).flatMap(([letter, count]) =>
  Array.from({ length: count }, (_, at) => `${letter}${at + 1}`),
);

/** Cells of each row with a number: the demand, what stickpin does or why not, the tests. */
const rows = PAGE.split('\n')
  .filter((line) => /^\| [OFSCM]\d+ \|/.test(line))
  .map((line) => line.slice(2, -2).split(' | '));
const shown = [...PAGE.matchAll(/`(test\/[^`]+)`: `([^`]+)`/g)].map(([, file = '', name = '']) => ({ file, name }));

describe('docs/origins.md', () => {
  it('has each number once, with a test or a reason', () => {
    expect(rows.map(([number]) => number)).toEqual(NUMBERS);
    expect(rows.filter((cells) => cells.length !== 4 || cells.some((cell) => cell.trim() === ''))).toEqual([]);
    const without = rows.filter(([, , , tests = '']) => !tests.startsWith('`test/'));
    expect(without.filter(([, , what = '']) => !/^Not\b.*: /.test(what))).toEqual([]);
  });

  it('names tests that exist', () => {
    expect(shown.length).toBeGreaterThan(NUMBERS.length);
    const gone = shown.filter(({ file, name }) => {
      const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
      return !text.includes(`'${name.replaceAll("'", "\\'")}'`);
    });
    expect(gone).toEqual([]);
  });
});
