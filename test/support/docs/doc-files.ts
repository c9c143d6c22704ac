import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Markdown, parseMarkdown } from './markdown.ts';

/** One file of the documentation, by its path in the repository. */
export interface DocFile extends Markdown {
  readonly path: string;
  readonly text: string;
}

const roots = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];

/** Every Markdown file that readers of the repository see. */
export function readDocs(): readonly DocFile[] {
  const below = ['docs', 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.md'))
      .map((file) => join(folder, file)),
  );
  return [...roots, ...below].filter((path) => existsSync(path)).map((path) => readDoc(path));
}

/** Reads and parses one file. */
export function readDoc(path: string): DocFile {
  const text = readFileSync(path, 'utf8');
  return { path, text, ...parseMarkdown(text) };
}

/** The text of everything that is installed on a node or runs there. */
export function readProductText(): string {
  return ['src', 'packaging', 'systemd', 'udev', 'docs/examples']
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');
}
