/**
 * Makes `dist/stickpin-<version>-linux-<arch>.tar.gz`: Node.js, the bundled program, its native
 * modules, protocol files, units, licences and the two scripts that put them on a node and take
 * them off again. Run by `npm run package` after `npm ci`. `node packaging/package.mjs [OUTDIR]`
 */
import { execFileSync } from 'node:child_process';
import { chmod, cp, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { licencesOf } from './licences.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = resolve(process.argv[2] ?? join(root, 'dist'));
const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
const name = `stickpin-${version}-linux-${process.arch}`;
const stage = join(dist, name);

/** Native modules, without their sources and without the binaries for other machines. */
const native = {
  'better-sqlite3': ['package.json', 'LICENSE', 'lib', `prebuilds/linux-${process.arch}.node`],
  koffi: [
    ...['package.json', 'LICENSE.txt', 'index.js', 'index.cjs'],
    ...['index.js', 'index.cjs', 'src/static.js', 'src/static.cjs'].map((file) => `src/koffi/${file}`),
  ],
  [`@koromix/koffi-linux-${process.arch}`]: ['package.json', 'index.js', `linux_${process.arch}/koffi.node`],
};
/** The official binary of Node.js for this machine. The program always runs on this one. */
const runtime = `node-linux-${process.arch}`;

execFileSync(process.execPath, [join(root, 'packaging/build.mjs'), join(dist, 'bundle')], { stdio: 'inherit' });
await rm(stage, { recursive: true, force: true });
await stageProgram();
await stageIntegration();
await stageLicences();
const tarball = join(dist, `${name}.tar.gz`);
execFileSync('tar', ['--owner=0', '--group=0', '--numeric-owner', '--sort=name', '-czf', tarball, '-C', dist, name]);
await rm(stage, { recursive: true });
await rm(join(dist, 'bundle'), { recursive: true });
process.stdout.write(`${relative(process.cwd(), tarball)}\n`);

async function stageProgram() {
  const lib = join(stage, 'lib');
  await cp(join(dist, 'bundle'), join(lib, 'dist'), { recursive: true });
  await cp(join(root, 'proto'), join(lib, 'proto'), { recursive: true });
  for (const [module, files] of Object.entries(native)) {
    for (const file of files) {
      const from = join(root, 'node_modules', module, file);
      await cp(from, join(lib, 'node_modules', module, file), { recursive: true });
    }
  }
  await rm(join(lib, 'dist/bundled-packages.json'));
  await cp(join(root, 'node_modules', runtime, 'bin/node'), join(lib, 'bin/node'));
  await chmod(join(lib, 'bin/node'), 0o755);
  await cp(join(root, 'packaging/stickpin'), join(stage, 'stickpin'));
  await chmod(join(stage, 'stickpin'), 0o755);
}

async function stageIntegration() {
  await cp(join(root, 'systemd'), join(stage, 'systemd'), { recursive: true });
  await cp(join(root, 'udev'), join(stage, 'udev'), { recursive: true });
  for (const script of ['install.sh', 'uninstall.sh']) {
    await cp(join(root, 'packaging', script), join(stage, script));
    await chmod(join(stage, script), 0o755);
  }
  await cp(join(root, 'packaging/inside.sh'), join(stage, 'inside.sh'));
  for (const document of ['README.md', 'LICENSE', 'CHANGELOG.md'])
    await cp(join(root, document), join(stage, document));
}

/** One file with the licence of each package whose code travels along. */
async function stageLicences() {
  const bundled = JSON.parse(await readFile(join(dist, 'bundle/bundled-packages.json'), 'utf8'));
  // The binary of koffi is a package without a licence text of its own.
  const modules = [runtime, ...Object.keys(native)].filter((module) => !module.startsWith('@koromix/'));
  const whole = modules.map((module) => `node_modules/${module}`);
  await writeFile(join(stage, 'LICENSES.third-party.txt'), await licencesOf(root, [...bundled, ...whole]));
}
