/**
 * Bundles the bench into `.cache/bench/run/main.mjs`: what it measures in processes of its own must
 * not carry a compiler. Each file still knows where its source is (`import.meta.url`).
 */
import { readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const sourceUrls = {
  name: 'source-urls',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/test\/.*\.ts$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      return { contents: text.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)), loader: 'ts' };
    }),
};

await build({
  entryPoints: [fileURLToPath(new URL('main.ts', import.meta.url))],
  outfile: '.cache/bench/run/main.mjs',
  bundle: true,
  platform: 'node',
  format: 'esm',
  packages: 'external',
  logLevel: 'warning',
  plugins: [sourceUrls],
});
