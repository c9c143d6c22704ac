import { describe, expect, it } from 'vitest';
import { parseToml } from '../../../../src/runtime/config/config-file.ts';
import { tomlString, tomlTableLines } from '../../../../src/runtime/config/toml-text.ts';

describe('tomlString', () => {
  it('escapes quotes, backslashes and every control character', () => {
    expect(tomlString('a"b\\c\n\t\u0000\u001f\u007f')).toBe('"a\\"b\\\\c\\u000a\\u0009\\u0000\\u001f\\u007f"');
    expect(tomlString('é😀')).toBe('"é😀"');
  });

  it('replaces a lone surrogate, which TOML can not contain', () => {
    expect(tomlString('a\ud800b')).toBe('"a\ufffdb"');
  });
});

describe('parseToml', () => {
  it.each([
    ['a key', `${'a.'.repeat(5_000)}a = 1\n`],
    ['a table', `[${'a.'.repeat(5_000)}a]\n`],
    ['a list', `a = ${'['.repeat(5_000)}${']'.repeat(5_000)}\n`],
  ])('refuses %s of thousands of levels', (_what, text) => {
    expect(parseToml(text).kind).toBe('fault');
  });
});

describe('tomlTableLines', () => {
  const written = (lines: string): string[] => {
    const parsed = parseToml(lines);
    if (parsed.kind === 'fault') throw new Error(parsed.reason);
    const text = tomlTableLines(parsed.table);
    expect(parseToml(text.join('\n'))).toEqual(parsed);
    return text;
  };

  it('writes every kind of value so that it is read as the same value', () => {
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
    expect(written(text)).toContain('[sub."http://host:1/p"]');
  });

  it('writes floats that are no finite numbers as TOML has them', () => {
    const lines = ['a = inf', 'b = -inf', 'c = nan', 'd = [inf, [-inf, nan]]', 'e = { f = inf }'];
    expect(written(lines.join('\n'))).toEqual([...lines.slice(0, 4), '', '[e]', 'f = inf']);
    expect(written('g = +inf')).toEqual(['g = inf']);
  });

  it('keeps floats apart from integers', () => {
    const lines = ['a = 1.0', 'b = -0.0', 'c = 1e+21', 'd = 5e-7', 'e = 10000000000000000.0', 'f = 1'];
    expect(written(lines.join('\n'))).toEqual(lines);
  });

  it('keeps every integer of 64 bits', () => {
    const lines = ['a = 9223372036854775807', 'b = -9223372036854775808', 'c = [[9007199254740993]]'];
    expect(written(lines.join('\n'))).toEqual(lines);
  });

  it('keeps dates and times as they are, with their offset and every digit', () => {
    const lines = [
      'a = 1979-05-27T07:32:00Z',
      'b = 1979-05-27T00:32:00.999999-07:00',
      'c = 1979-05-27T07:32:00.5',
      'd = 1979-05-27',
      'e = [07:32:00, [00:00:00.000001]]',
      'f = "1979-05-27"',
    ];
    expect(written(lines.join('\n'))).toEqual(lines);
  });
});
