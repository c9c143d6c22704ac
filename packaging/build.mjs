/**
 * Bundles the daemon (`dist/main.js`), the thread in which it parses documents
 * (`dist/document-worker.js`), the fleet process (`dist/fleet/main.js`), that of the sources
 * (`dist/sources/main.js`), that of the console (`dist/console/main.js`) and the command line
 * (`dist/cli/main.js`) with what they import, so that starting reads a handful of files. Native
 * modules stay in node_modules.
 *
 * Usage: `node packaging/build.mjs [OUTDIR]`
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { argv, env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const outdir = argv[2] ?? join(root, 'dist');

/** Native modules, and what dbus-next would load for transports that are never used. */
const external = ['better-sqlite3', 'koffi', 'usocket', 'event-stream', 'x11'];

/**
 * Takes Node's own modules without an ES module around them. Node fills that with every export at
 * once, and one of `node:http` loads its whole HTTP client: a third of the time that a start takes.
 */
const builtinModules = {
  name: 'builtin-modules',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === 'require-call' ? undefined : { path, namespace: 'builtin', sideEffects: false },
    );
    onLoad({ filter: /.*/, namespace: 'builtin' }, ({ path }) => {
      const module = `/* @__PURE__ */ process.getBuiltinModule(${JSON.stringify(path)})`;
      const names = Object.keys(process.getBuiltinModule(path)).filter((name) => name !== 'default');
      const exports = names.map((name) => `export const ${name} = /* @__PURE__ */ (() => builtin.${name})();`);
      return { contents: [`const builtin = ${module};`, 'export default builtin;', ...exports].join('\n') };
    });
  },
};

/** The names of the parts depend on it, so that it is the same wherever they are written. */
const nominalOutdir = join(root, 'dist');

const entryPoints = {
  main: 'src/main.ts',
  'cli/main': 'src/stickpin.ts',
  'fleet/main': 'src/fleet.ts',
  'sources/main': 'src/sources.ts',
  'console/main': 'src/console.ts',
  // Started by the daemon, from beside its own file.
  'document-worker': 'src/bundle/documents/document-worker.ts',
};

await rm(outdir, { recursive: true, force: true });
// Each is built by itself: parts that are shared with others would be ninety files instead of
// twelve, and a quarter of the time that a start takes.
const built = await Promise.all(Object.entries(entryPoints).map(buildEntry));
for (const { path, contents } of built.flatMap(({ outputFiles }) => outputFiles)) {
  const file = join(outdir, relative(nominalOutdir, path));
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, contents);
}
await writeFile(join(outdir, 'package.json'), '{"type":"module"}\n');
await writeFile(join(outdir, 'bundled-packages.json'), `${JSON.stringify(bundledPackages(built), null, 2)}\n`);

function buildEntry([name, source]) {
  return build({
    absWorkingDir: root,
    entryPoints: { [name]: source },
    outdir: nominalOutdir,
    write: false,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.22',
    external,
    plugins: [builtinModules],
    define: buildTime(env.SOURCE_DATE_EPOCH),
    // Names stay, for stack traces; the rest is shortened, since Node keeps the text of what it
    // runs in memory.
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: false,
    legalComments: 'none',
    metafile: true,
    // CommonJS packages inside an ES module still ask for Node's own modules with require().
    banner: {
      js: "import { createRequire as createRequireOfBundle } from 'node:module'; const require = createRequireOfBundle(import.meta.url);",
    },
  });
}

/** The time of the build, when it is given: it makes the program no less reproducible. */
function buildTime(epoch) {
  if (epoch === undefined) return {};
  if (!/^\d{1,11}$/.test(epoch)) throw new Error(`SOURCE_DATE_EPOCH is '${epoch}', and must be seconds since 1970`);
  return { STICKPIN_BUILT_AT: String(Number(epoch) * 1000) };
}

/** Folders of the packages whose code went into the bundle: their licences have to go along. */
function bundledPackages(all) {
  const inputs = all
    .flatMap(({ metafile }) => Object.values(metafile.outputs))
    .flatMap((output) => Object.keys(output.inputs));
  const folders = inputs.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set(folders)].sort();
}
