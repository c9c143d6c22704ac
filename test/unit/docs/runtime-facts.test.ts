import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const page = readFileSync('docs/runtime-facts.md', 'utf8');
const defined = [...page.matchAll(/^### Fact (\d+)$/gm)].map(([, number]) => Number(number));

/** Text with the line breaks of comments taken out. */
function unwrapped(text: string): string {
  return text.replace(/\s*\n\s*(?:\*|\/\/|#)?\s*/g, ' ');
}

const cited = ['src', 'test', 'systemd', 'packaging', 'udev'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes(join('test', 'unit', 'docs')))
    .map((entry) => join(entry.parentPath, entry.name))
    .flatMap((file) =>
      [...unwrapped(readFileSync(file, 'utf8')).matchAll(/(\S+ )?\bfacts? (\d+)(?:(, | to | and )(\d+))*/gi)].map(
        ([text, before = '']) => ({ file, text, before, numbers: numbersIn(text.slice(before.length)) }),
      ),
    ),
);

/** The numbers of `facts 2, 4, 5`, and those between the ends of `facts 1 to 4`. */
function numbersIn(citation: string): number[] {
  const numbers = [...citation.matchAll(/\d+/g)].map(Number);
  const [first = 0, last = 0] = numbers;
  return citation.includes(' to ') ? Array.from({ length: last - first + 1 }, (_, at) => first + at) : numbers;
}

describe('docs/runtime-facts.md', () => {
  it('has each number once, in order, with a check', () => {
    expect(defined).toEqual([...new Set(defined)].sort((a, b) => a - b));
    for (const section of page.split(/^### /m).slice(1)) expect(section).toMatch(/\n\*Check:\* \S/);
  });

  it('is named by every citation of a fact', () => {
    expect(cited.length).toBeGreaterThan(100);
    expect(cited.filter(({ before }) => !before.endsWith('docs/runtime-facts.md, '))).toEqual([]);
  });

  it('has every fact that is cited', () => {
    expect(cited.filter(({ numbers }) => numbers.some((number) => !defined.includes(number)))).toEqual([]);
  });

  it('has no fact that is cited nowhere', () => {
    const numbers = new Set(cited.flatMap((citation) => citation.numbers));
    expect(defined.filter((number) => !numbers.has(number))).toEqual([]);
  });
});
