import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { markedBlocks } from '../../support/docs/marked-blocks.ts';

const PAGE = 'docs/install.md';
const README = 'README.md';
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

it('README.md has a quick start for each runtime, and shows only commands that a test runs or that are unproven', () => {
  const blocks = markedBlocks(README);
  const names = blocks.filter(({ kind }) => kind === 'run').map(({ name }) => name);
  expect(names).toEqual(['demo', 'crio', 'containerd', 'k3s', 'factory']);
  const tests = testsOf(README);
  const isRun = (name: string) =>
    tests.some(
      (text) => text.includes(`run('${name}', '${README}')`) || text.includes(`commandsOf(README, '${name}')`),
    );
  expect(names.filter((name) => !isRun(name))).toEqual([]);
  for (const { name, text } of blocks.filter((block) => /^stickpin doctor$/m.test(block.text))) {
    const commands = text.trim().split('\n').length;
    expect(commands, name).toBeGreaterThanOrEqual(4);
    expect(commands, name).toBeLessThanOrEqual(6);
  }
  const page = readFileSync(README, 'utf8');
  for (const runtime of ['CRI-O', 'containerd', 'k3s, RKE2', 'OpenShift']) expect(page).toContain(`\n**${runtime}**`);
  // What stands between fences is code; with nothing behind the fence it is a picture or an output.
  const shown = page.split(/^```/m).filter((text, at) => at % 2 === 1 && text.startsWith('\n'));
  for (const text of shown) expect(text).not.toMatch(/^(sudo |stickpin |npm |apt-get )/m);
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
