import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** The repository's root directory. */
const repository = fileURLToPath(new URL('../../../', import.meta.url));

/** The CRI's proto file, to be copied beside the program where the repository isn't. */
export const criProtoFile = join(repository, 'proto/runtime/v1/api.proto');

/**
 * Bundles the double with everything it imports into one CommonJS file for Node 20. The proto file is not in it: see `--proto`.
 *
 * @param outFile must end in `.cjs`, or in `.js` where no package.json says that files are modules.
 */
export async function bundleCrioDouble(outFile: string): Promise<void> {
  await build({
    entryPoints: [join(repository, 'test/support/crio-double/main.ts')],
    outfile: outFile,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    logLevel: 'error',
  });
}

/** Where the harness puts the bundle of this run: `.cache/` is ignored by git. */
export function cachedBundle(): string {
  return join(repository, '.cache', 'crio-double', `main-${process.pid}.cjs`);
}
