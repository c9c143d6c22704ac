import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const PAGE = readFileSync('docs/platforms.md', 'utf8');
const rows = PAGE.split('\n').filter((line) => /^\| (?!-|.*\bproven \|)/.test(line));

describe('docs/platforms.md', () => {
  it('names tests that exist', () => {
    const named = [...PAGE.matchAll(/`(test\/[^`]+\.ts)`/g)].map(([, file = '']) => file);
    expect(named.length).toBeGreaterThan(15);
    expect(named.filter((file) => !existsSync(file))).toEqual([]);
  });

  it('has in each row what proves it, or what is not proven', () => {
    expect(rows.length).toBeGreaterThan(15);
    const empty = rows.filter((row) =>
      row
        .split(' | ')
        .slice(-2)
        .every((cell) => cell.replace('|', '').trim() === ''),
    );
    expect(empty).toEqual([]);
  });
});
