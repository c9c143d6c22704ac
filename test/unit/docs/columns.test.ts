import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const WIDTH = 100;

/** The files with this ending in our folders. */
const filesOf = (ending: string) =>
  ['src', 'test', 'packaging', 'docs', '.ci'].flatMap((root) =>
    readdirSync(root, { recursive: true, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() && entry.name.endsWith(ending) ? [join(entry.parentPath, entry.name)] : [],
    ),
  );

/** Wide lines that count, as `file:line`. Lines between fences of code blocks are left out. */
function wideLines(file: string, counts: (line: string) => boolean): readonly string[] {
  let isCode = false;
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, index) => {
      if (line.startsWith('```')) isCode = !isCode;
      return !isCode && line.length > WIDTH && counts(line) ? [`${file}:${index + 1}`] : [];
    });
}

it('comments wrap at 100 columns', () => {
  // A directive of the linter is one line.
  const isComment = (line: string) => /^\s*(\/\/|\/\*|\* )/.test(line) && !line.includes('biome-ignore');
  const files = ['.ts', '.mjs'].flatMap(filesOf);
  expect(files.length).toBeGreaterThan(1_000);
  expect(files.flatMap((file) => wideLines(file, isComment))).toEqual([]);
});

it('Markdown wraps at 100 columns', () => {
  // Rows of tables and links can't be broken.
  const isText = (line: string) => !line.startsWith('|') && !line.includes('](') && !line.includes('://');
  const files = [...filesOf('.md'), 'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  expect(files.length).toBeGreaterThan(30);
  expect(files.flatMap((file) => wideLines(file, isText))).toEqual([]);
});
