import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../../', import.meta.url));

/** A file of the working tree, by its path in it. */
export interface SourceSum {
  readonly path: string;
  readonly sha256: string;
}

/** The files at and below these paths of the working tree, sorted: a recipe for `buildOnce()`. */
export async function sourceSums(paths: readonly string[]): Promise<readonly SourceSum[]> {
  const files = (await Promise.all(paths.map(filesBelow))).flat().sort();
  return Promise.all(files.map(async (path) => ({ path, sha256: await sumOf(path) })));
}

async function sumOf(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(join(repository, path)))
    .digest('hex');
}

async function filesBelow(path: string): Promise<string[]> {
  if ((await stat(join(repository, path))).isFile()) return [path];
  const entries = await readdir(join(repository, path), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(repository.length));
}
