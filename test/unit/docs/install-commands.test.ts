import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { markedBlocks } from '../../support/docs/marked-blocks.ts';

const PAGE = 'docs/install.md';
const FACTORY_PAGE = 'docs/factory.md';

/** The tests that name a page. */
const testsOf = (page: string) =>
  ['test/integration', 'test/e2e'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => readFileSync(join(folder, name), 'utf8'))
      .filter((text) => text.includes(page)),
  );

it('docs/install.md shows only commands that a test runs, or that are marked as unproven with the reason', () => {
  const tests = testsOf(PAGE);
  const blocks = markedBlocks(PAGE);
  const names = blocks.filter(({ kind }) => kind === 'run').map(({ name }) => name);
  expect(names.length).toBeGreaterThan(9);
  expect(
    names.filter((name) => !tests.some((text) => text.includes(`('${name}')`) || text.includes(`', '${name}')`))),
  ).toEqual([]);
  const shown = readFileSync(PAGE, 'utf8').match(/^```/gm) ?? [];
  expect(shown).toHaveLength(2 * blocks.length);
});

it('docs/factory.md shows commands only below headings whose commands a test runs', () => {
  const sections = readFileSync(FACTORY_PAGE, 'utf8').split(/^(?=#+ )/m);
  const headings = sections.filter((text) => /^```sh$/m.test(text)).map((text) => text.split('\n', 1)[0] ?? '');
  expect(headings.length).toBeGreaterThan(6);
  const tests = testsOf(FACTORY_PAGE);
  const isRun = (heading: string) =>
    tests.some((text) => text.includes(`, '${heading}')`) || text.includes(`runSection('${heading}')`));
  expect(headings.filter((heading) => !isRun(heading))).toEqual([]);
});
