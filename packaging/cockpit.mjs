/**
 * Bundles the page for Cockpit: `page.js` and `page.css` beside the manifest and the page itself.
 * `bundled-packages.json` names the folders of the packages whose code is in it.
 *
 * Usage: `node packaging/cockpit.mjs OUTDIR`
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const sources = join(root, 'packaging/cockpit');
const outdir = resolve(argv[2] ?? join(root, 'dist/cockpit'));

/** Code of the daemon that the page does not use may import Node's own modules. */
const builtinModules = {
  name: 'builtin-modules',
  setup({ onResolve }) {
    onResolve({ filter: /^node:/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
  },
};

const { outputFiles, metafile } = await build({
  absWorkingDir: root,
  entryPoints: ['packaging/cockpit/page.ts', 'packaging/cockpit/page.css'],
  outdir: join(root, 'dist/cockpit'),
  write: false,
  bundle: true,
  minify: true,
  format: 'iife',
  platform: 'browser',
  // Of Debian 12 and newer, and of RHEL 9.
  target: ['es2022', 'chrome109', 'firefox102', 'safari16'],
  // The fonts are Cockpit's own.
  external: ['../../static/*', '*.svg'],
  plugins: [builtinModules],
  legalComments: 'none',
  metafile: true,
});
await mkdir(outdir, { recursive: true });
for (const { path, text } of outputFiles) {
  const content = path.endsWith('.css') ? withoutUnused(text) : text;
  // Cockpit takes the compressed file where there is no other one.
  await writeFile(join(outdir, `${basename(path)}.gz`), gzipSync(content, { level: 9 }));
}
for (const file of ['manifest.json', 'index.html']) await cp(join(sources, file), join(outdir, file));

const inputs = Object.values(metafile.outputs).flatMap((output) => Object.keys(output.inputs));
const folders = inputs.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
await writeFile(join(outdir, 'bundled-packages.json'), `${JSON.stringify([...new Set(folders)].sort())}\n`);

/** Without themes that Cockpit does not have, and without variables that no rule reads. */
function withoutUnused(css) {
  let text = css.replace(/:root:where\([^{}]*theme-(?:felt|glass|high-contrast)[^{}]*\)\{[^{}]*\}/g, '');
  for (;;) {
    const used = new Set([...text.matchAll(/var\((--[\w-]+)/g)].map(([, name]) => name));
    const next = text.replace(/(?<=[{;])(--[\w-]+):[^;{}]*(?:;|(?=\}))/g, (all, name) => (used.has(name) ? all : ''));
    if (next === text) return text;
    text = next;
  }
}
