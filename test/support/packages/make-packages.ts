import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import packageJson from '../../../package.json' with { type: 'json' };
import { program, type Requirement, withHelpers } from '../requirements.ts';
import { buildOnce } from '../rootfs/build-cache.ts';
import { execute } from '../rootfs/execute.ts';
import { sourceSums } from '../source-sums.ts';

const repository = fileURLToPath(new URL('../../../', import.meta.url));

/** What makes the archive, which is in every package. */
export const archiveNeed: Requirement = program('readelf', 'apt-get install binutils');

/** The programs that make packages, and those that look into them. */
export const packagingNeeds: readonly Requirement[] = [
  archiveNeed,
  program('dpkg-deb', 'apt-get install dpkg'),
  withHelpers('rpmbuild', 'apt-get install rpm'),
  program('mksquashfs', 'apt-get install squashfs-tools'),
];

/** A time, so that a test that is run in a commit of its own makes the same. */
const epoch = '1767225600';

/** That of `package.json` with another third number, so that it is a later one. */
export const laterVersion = (patch: number): string => packageJson.version.replace(/\d+$/, String(patch));

/** Runs `packaging/package.mjs` with further arguments. Returns what it printed. */
export function makePackages(
  directory: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const argv = [process.execPath, join(repository, 'packaging/package.mjs'), directory, ...args];
  return execute(argv, { cwd: repository, env: { ...process.env, SOURCE_DATE_EPOCH: epoch, ...env } });
}

/** What a package is made of: everything that `packaging/` reads. */
const ingredients = [
  ...['src', 'proto', 'systemd', 'udev', 'packaging', 'docs'],
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE'],
];

/**
 * One package for this machine, as a user gets it, in `directory`. Returns its path. It is made
 * once for each state of the working tree, and for each `version` (default: that of
 * `package.json`). `deb` and `rpm` also make the package of the page for Cockpit.
 */
export async function makePackage(
  format: 'archive' | 'deb' | 'rpm' | 'sysext',
  directory: string,
  version = packageJson.version,
  packageName: 'stickpin' | 'stickpin-cockpit' = 'stickpin',
): Promise<string> {
  const recipe = { files: await sourceSums(ingredients), node: process.version, arch: process.arch, version };
  const made = await buildOnce(`package-${format}`, recipe, async (folder) => {
    const env = { STICKPIN_PACKAGE_VERSION: version };
    await makePackages(folder, ['--arch', process.arch, '--format', format], env);
  });
  const end = { archive: '.tar.gz', deb: '.deb', rpm: '.rpm', sysext: '.raw' }[format];
  const name = (await readdir(made)).find(
    (file) => new RegExp(`^${packageName}[-_]${version}`).test(file) && file.endsWith(end),
  );
  if (name === undefined) throw new Error(`no ${end} in ${made}`);
  await mkdir(directory, { recursive: true });
  await copyFile(join(made, name), join(directory, name));
  return join(directory, name);
}

/**
 * A `.deb` like `deb`, of another version, which its program says, too.
 *
 * @param daemon takes the place of the daemon
 */
export async function remadeDeb(
  deb: string,
  directory: string,
  version: string,
  daemon?: string,
): Promise<{ readonly path: string; readonly name: string }> {
  const tree = join(directory, `tree-${version}`);
  const name = `stickpin_${version}_amd64.deb`;
  const path = join(directory, name);
  await mkdir(directory, { recursive: true });
  await execute(['dpkg-deb', '--raw-extract', deb, tree]);
  const replace = async (file: string, from: string, to: string) =>
    writeFile(file, (await readFile(file, 'utf8')).replace(from, to));
  await replace(join(tree, 'DEBIAN/control'), `Version: ${packageJson.version}`, `Version: ${version}`);
  const dist = join(tree, 'usr/lib/stickpin/dist');
  for (const file of (await readdir(dist)).filter((one) => one.endsWith('.js')))
    await replace(join(dist, file), `version:"${packageJson.version}"`, `version:"${version}"`);
  if (daemon !== undefined) await writeFile(join(dist, 'main.js'), daemon);
  await execute(['dpkg-deb', '--root-owner-group', '-Zxz', '-z1', '--build', tree, path]);
  await rm(tree, { recursive: true });
  return { path, name };
}
