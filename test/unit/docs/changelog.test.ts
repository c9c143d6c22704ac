import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

it('CHANGELOG.md has each kind of change once under [Unreleased], in the order of its form', () => {
  const [, unreleased = ''] =
    /^## \[Unreleased\]\n([\s\S]*?)(?=^## \[|(?![\s\S]))/m.exec(readFileSync('CHANGELOG.md', 'utf8')) ?? [];
  const headings = [...unreleased.matchAll(/^### (.+)$/gm)].map(([, heading]) => heading);
  const known = ['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security'];
  expect(headings).toEqual(known.filter((heading) => headings.includes(heading)));
});

it('CHANGELOG.md has no entry twice, as a merge may leave behind', () => {
  const text = readFileSync('CHANGELOG.md', 'utf8');
  const entries = [...text.matchAll(/^- .+(?:\n {2}.+)*/gm)].map(([entry]) => entry.replace(/\s+/g, ' '));
  expect(entries.filter((entry, at) => entries.indexOf(entry) !== at)).toEqual([]);
});
