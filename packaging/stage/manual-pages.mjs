import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { loadSource } from '../load-source.mjs';
import { commandManuals } from './command-manual.mjs';
import { manualPage } from './manual.mjs';
import { about, epoch, root } from './project.mjs';

const { definedProgram, manualCommands } = await loadSource('src/cli/manual.ts');

/** The manual pages of the commands, and the document that their prose is from. */
const COMMANDS = { path: 'docs/cli.md', name: 'stickpin', section: 1, summary: 'upgrades nodes from a USB stick' };

/** Other manual pages, and the documents that they are made of. */
const OTHERS = [
  { path: 'docs/settings.md', name: 'stickpin.toml', section: 5, summary: 'settings of stickpin' },
  { path: 'docs/bundle-format.md', name: 'stickpin-bundle', section: 5, summary: 'bundles of stickpin' },
  { path: 'docs/service.md', name: 'stickpin.service', section: 8, summary: 'the daemon of stickpin' },
];

/** The text of each page by the name of its file: `stickpin-list.1`. */
async function manualPages() {
  const common = {
    date: new Date(Number(epoch) * 1000).toISOString().slice(0, 10),
    source: `stickpin ${about.version}`,
  };
  const textOf = ({ path }) => readFile(join(root, path), 'utf8');
  const commands = commandManuals(await textOf(COMMANDS), { ...COMMANDS, ...common }, manualCommands(definedProgram()));
  const pages = Object.entries(commands).map(([name, text]) => [`${name}.${COMMANDS.section}`, text]);
  for (const page of OTHERS) {
    pages.push([`${page.name}.${page.section}`, manualPage(await textOf(page), { ...page, ...common })]);
  }
  return pages;
}

/** Writes all pages into a folder, packed as packages have them. */
export async function stageManual(folder) {
  await mkdir(folder, { recursive: true });
  for (const [name, text] of await manualPages()) {
    await writeFile(join(folder, `${name}.gz`), gzipSync(text, { level: 9 }));
  }
}

/** Their lines in `packaging/node/files`. */
export async function manualFiles() {
  const names = (await manualPages()).map(([name]) => name);
  return names.map((name) => `file 0644 man/${name}.gz /usr/share/man/man${name.at(-1)}/${name}.gz`);
}
