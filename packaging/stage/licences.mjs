import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The text with the licence of each of these package folders below `root`, sorted, each once. */
export async function licencesOf(root, folders) {
  const sorted = [...new Set(folders)].sort();
  return (await Promise.all(sorted.map((folder) => licenceOf(join(root, folder), root)))).join('\n');
}

async function licenceOf(folder, root) {
  const about = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const files = (await readdir(folder)).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file)).sort();
  const paths = files.map((file) => join(folder, file));
  // That text names no holder, and ours is the same one.
  if (paths.length === 0 && about.license === 'Apache-2.0') paths.push(join(root, 'LICENSE'));
  const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
  const title = `${about.name} ${about.version} (${licenceName(about)})`;
  const text =
    texts.length > 0
      ? texts.join('\n').replaceAll('\r\n', '\n')
      : `No licence text in the package; author: ${authorOf(about)}\n`;
  return `${'='.repeat(80)}\n${title}\n${'='.repeat(80)}\n\n${text}`;
}

function licenceName({ license, licenses }) {
  if (typeof license === 'string') return license;
  return license?.type ?? licenses?.map(({ type }) => type).join(' or ') ?? 'as below';
}

function authorOf({ author, contributors, repository }) {
  const who = author ?? contributors?.[0] ?? repository?.url ?? 'unknown';
  return typeof who === 'string' ? who : who.name;
}
