import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const PAGE = readFileSync('docs/origins.md', 'utf8');
const NUMBERS = Object.entries({ O: 21, F: 13, S: 10, C: 10, M: 8 }).flatMap(([letter, count]) =>
  Array.from({ length: count }, (_, at) => `${letter}${at + 1}`),
);
/** Demands that name a state of the node, the network or the registry from which they start. */
const WITH_STATE = [
  'O2 O6 O15 O16 O19',
  'F2 F7 F8 F9 F11 F13',
  'S3 S4 S5 S6 S7 S8 S9 S10',
  'C3 C9',
  'M2 M4 M7 M8',
].flatMap((numbers) => numbers.split(' '));
/** A switch comes with images of its own, from which its units run. */
const INSTALLED = ['S4', 'S6', 'S7', 'S8', 'S9', 'S10'];

/** Cells of each row: its number, the demand, its start, what stickpin does, the tests. */
const rows = PAGE.split('\n')
  .filter((line) => /^\| [OFSCM]\d+ \|/.test(line))
  .map((line) => line.slice(2, -2).split(' | '));
const namedIn = (cell: string) =>
  [...cell.matchAll(/`(test\/[^`]+)`: `([^`]+)`/g)].map(([, file = '', name = '']) => ({ file, name }));
const literalIn = (cell = '') => /: `([^`]+)`$/.exec(cell)?.[1];

/** From the name of the test up to the next one; undefined without such a test. */
function bodyOf({ file, name }: { readonly file: string; readonly name: string }): string | undefined {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const quoted = [`'${name.replaceAll("'", "\\'")}'`, `"${name}"`];
  const starts = [...text.matchAll(/(?:\b(?:it|test)|\))\(\s*(?=['"])|\bname: (?=')/g)].map(
    ({ index, 0: { length } }) => index + length,
  );
  const at = starts.findIndex((start) => quoted.some((one) => text.startsWith(one, start)));
  return at === -1 ? undefined : text.slice(starts[at], starts[at + 1]);
}

describe('docs/origins.md', () => {
  it('has each number once, with a test or a reason', () => {
    expect(rows.map(([number]) => number)).toEqual(NUMBERS);
    expect(rows.filter((cells) => cells.length !== 5 || cells.some((cell) => cell.trim() === ''))).toEqual([]);
    const without = rows.filter(([, , , , tests = '']) => !tests.startsWith('`test/'));
    expect(without.filter(([, , , what = '']) => !/^Not\b.*: /.test(what))).toEqual([]);
  });

  it('names tests that exist', () => {
    const shown = rows.flatMap((cells) => namedIn(cells.at(-1) ?? ''));
    expect(shown.length).toBeGreaterThan(NUMBERS.length);
    expect(shown.filter((test) => bodyOf(test) === undefined)).toEqual([]);
  });

  it('has a state for each demand that starts from one, and a test that starts from it', () => {
    expect(rows.flatMap(([number = '', , start]) => (literalIn(start) === undefined ? [] : number))).toEqual(
      WITH_STATE,
    );
    const friendlier = rows.filter(([, , start, , tests = '']) => {
      const literal = literalIn(start);
      return literal !== undefined && !namedIn(tests).some((test) => bodyOf(test)?.includes(literal));
    });
    expect(friendlier.map(([number]) => number)).toEqual([]);
    const without = rows.filter(
      ([number = '', , start]) => INSTALLED.includes(number) && !start?.includes(': `install('),
    );
    expect(without).toEqual([]);
  });
});
