import { parse } from 'toml';
import { expect, it } from 'vitest';
import { tomlFault } from '../../../src/platform/schema-fault.ts';

const faultOf = (text: string) => {
  try {
    parse(text);
  } catch (error) {
    return tomlFault(error);
  }
  return undefined;
};

it.each([
  ['[a]\nb = 7d\n', { line: 2, reason: "line 2 can't be read from column 6 on" }],
  ['x = "abc\n', { line: 1, reason: 'line 1 ends too early' }],
  ['[a\nb = 1\n', { line: 1, reason: 'line 1 ends too early' }],
  ['x =\r\n', { line: 1, reason: 'line 1 ends too early' }],
  ['a = [1,\n', { line: 2, reason: 'line 2: the file ends too early' }],
  ['[a]\nb = 1\nb = 2\n', { line: 3, reason: "line 3: Cannot redefine existing key 'a.b'" }],
])('tells in words where %j is not TOML', (text, expected) => {
  expect(faultOf(text)).toEqual(expected);
});

it('takes the words of an error that names no place', () => {
  expect(tomlFault(new Error('out of memory'))).toEqual({ line: undefined, reason: 'out of memory' });
});
