import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const repository = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Bundles a program of the tests with everything it imports into one CommonJS file for Node 20, for
 * a machine that has no repository.
 *
 * @param outFile must end in `.cjs`, or in `.js` where no package.json says that files are modules.
 */
export async function bundleProgram(source: string, outFile: string): Promise<void> {
  await build({
    entryPoints: [source],
    outfile: outFile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    logLevel: 'error',
  });
}

/**
 * Bundles a program of the tests, named by its path in the repository, as the product is: for this
 * machine, with the packages left outside.
 *
 * @param name of the folder below `.cache` that it goes to
 * @returns the path of the file
 */
export async function bundleIntoCache(source: string, name: string): Promise<string> {
  const file = join(repository, '.cache', name, 'main.mjs');
  const own = `${file}.${process.pid}.mjs`;
  await build({
    absWorkingDir: repository,
    entryPoints: [source],
    outfile: own,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
  });
  await rename(own, file);
  return file;
}
