import { parse } from 'toml';
import { describe, expect, it } from 'vitest';
import { tomlString, tomlTableLines } from '../../../src/runtime/toml-text.ts';

describe('tomlString', () => {
  it('escapes quotes, backslashes and every control character', () => {
    expect(tomlString('a"b\\c\n\t\u0000\u001f\u007f')).toBe('"a\\"b\\\\c\\u000a\\u0009\\u0000\\u001f\\u007f"');
    expect(tomlString('é😀')).toBe('"é😀"');
  });

  it('replaces half a character, which TOML can not hold', () => {
    expect(tomlString('a\ud800b')).toBe('"a\ufffdb"');
  });
});

describe('tomlTableLines', () => {
  it('writes every kind of value so that it reads the same', () => {
    const text = `
"a key" = "v"
number = 3
float = 1.5
flag = true
date = 2024-01-02T03:04:05.000Z
list = [["a", "b"], [1]]
tables = [{ "x.y" = 1 }, {}]
[sub]
k = "v"
["sub"."http://host:1/p"]
deep = []
`;
    const table = parse(text);
    expect(parse(tomlTableLines(table).join('\n'))).toEqual(table);
    expect(tomlTableLines(table)).toContain('[sub."http://host:1/p"]');
  });
});
