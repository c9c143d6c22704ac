import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * Loads a module of `src`. Node.js alone can't: its reading of TypeScript knows no parameter
 * properties.
 */
export async function loadSource(path) {
  await mkdir(join(root, '.cache'), { recursive: true });
  const folder = await mkdtemp(join(root, '.cache/source-'));
  try {
    const outfile = join(folder, 'module.mjs');
    const entryPoints = [join(root, path)];
    await build({ entryPoints, outfile, bundle: true, packages: 'external', platform: 'node', format: 'esm' });
    return await import(pathToFileURL(outfile).href);
  } finally {
    await rm(folder, { recursive: true });
  }
}
