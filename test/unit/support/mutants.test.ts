import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import mutants from '../../mutants/mutants.json' with { type: 'json' };

const sources = globSync('src/**/*.ts').map((path) => readFileSync(path, 'utf8'));

it.each(mutants)('the code of this fault is there once: $behaviour', ({ find, tests }) => {
  expect(sources.reduce((sum, text) => sum + text.split(find).length - 1, 0)).toBe(1);
  for (const begin of tests) expect(globSync(`${begin}*`), begin).not.toEqual([]);
});
