import { build } from 'esbuild';

/**
 * Bundles a program of the tests with everything it imports into one CommonJS file for Node 20, for a machine that has no repository.
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
