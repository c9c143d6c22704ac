import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleProgram } from '../bundles/bundle-program.ts';

/** The repository's root directory. */
const repository = fileURLToPath(new URL('../../../', import.meta.url));

/** The CRI's proto file, to be copied beside the program where the repository isn't. */
export const criProtoFile = join(repository, 'proto/runtime/v1/api.proto');

/**
 * Bundles the double with everything it imports into one CommonJS file for Node.js. The proto file
 * is not in it: see `--proto`.
 *
 * @param outFile must end in `.cjs`, or in `.js` where no package.json says that files are modules.
 */
export async function bundleCrioDouble(outFile: string): Promise<void> {
  await bundleProgram(join(repository, 'test/support/crio-double/main.ts'), outFile);
}

/**
 * Bundles the double into `.cache/`, which git ignores, and resolves with the file. Test runs at
 * the same time don't disturb each other.
 */
export async function bundleIntoCache(): Promise<string> {
  const file = join(repository, '.cache', 'crio-double', 'main.cjs');
  const own = `${file}.${process.pid}.cjs`;
  await bundleCrioDouble(own);
  await rename(own, file);
  return file;
}
