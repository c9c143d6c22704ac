import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { markedBlocks } from '../../support/docs/marked-blocks.ts';

const PAGE = 'docs/install.md';
const tests = ['test/integration', 'test/e2e'].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(join(folder, name), 'utf8'))
    .filter((text) => text.includes(PAGE)),
);

it('docs/install.md shows only commands that a test runs, or that are marked as unproven with the reason', () => {
  const blocks = markedBlocks(PAGE);
  const names = blocks.filter(({ kind }) => kind === 'run').map(({ name }) => name);
  expect(names.length).toBeGreaterThan(9);
  expect(
    names.filter((name) => !tests.some((text) => text.includes(`('${name}')`) || text.includes(`', '${name}')`))),
  ).toEqual([]);
  const shown = readFileSync(PAGE, 'utf8').match(/^```/gm) ?? [];
  expect(shown).toHaveLength(2 * blocks.length);
});
