/**
 * Makes a release of the commit that is checked out: `npm run release -- VERSION --sign-key FILE`.
 * In a worktree of its own it sets version and date, commits that, installs what the lock file
 * names, and makes the packages. Only then the commit gets a tag, and the branch the commit.
 *
 * With `--dry-run` neither branch nor tag changes, the npm packages that are installed are taken,
 * and what a release refuses is printed. The default version is then the next minor one, at least
 * 1.0.0.
 *
 * Usage: `node packaging/release.mjs VERSION [OUTDIR] [--sign-key FILE] [--dry-run] [--arch x64]...
 * [--format deb]...`; the default folder is `dist/release`, and `dist/dry-run`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { env, exit, stderr, stdout } from 'node:process';
import { parseArgs } from 'node:util';
import semver from 'semver';
import { releasedChangelog, releaseFaults, tagOf } from './release/release-text.ts';
import { about, root } from './stage/project.mjs';

const DAY_MS = 86_400_000;
/** A commit that is thrown away needs no author. */
const NOBODY = ['-c', 'user.name=dry-run', '-c', 'user.email=none', '-c', 'commit.gpgSign=false'];

const gitIn = (cwd, ...args) =>
  execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();
const textOf = (path) => readFile(join(root, path), 'utf8');

async function makeRelease() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      'sign-key': { type: 'string', default: env.STICKPIN_SIGN_KEY || undefined },
      arch: { type: 'string', multiple: true, default: [] },
      format: { type: 'string', multiple: true, default: [] },
    },
  });
  const isDry = values['dry-run'];
  const signKey = values['sign-key'] && resolve(values['sign-key']);
  const next = semver.lt(about.version, '1.0.0') ? '1.0.0' : semver.inc(about.version, 'minor');
  const version = positionals[0] ?? (isDry ? next : undefined);
  if (semver.valid(version) === null)
    throw new Error('name the version: npm run release -- 1.2.3 --sign-key release.key');
  const dist = resolve(positionals[1] ?? join(root, isDry ? 'dist/dry-run' : 'dist/release'));
  if (positionals[1] !== undefined && existsSync(dist) && (await readdir(dist)).length > 0)
    throw new Error(`${dist} is not empty: name another folder`);
  const faults = await faultsOf(version, signKey);
  if (faults.length > 0 && !isDry) throw new Error(`${version} is not released:\n${faults.join('\n')}`);
  const options = [
    ...['arch', 'format'].flatMap((name) => values[name].flatMap((value) => [`--${name}`, value])),
    // What a dry run makes must not look like a release.
    ...(signKey === undefined || isDry ? [] : ['--sign-key', signKey]),
  ];
  if (positionals[1] === undefined) await rm(dist, { recursive: true, force: true });
  const commit = await buildCommit(version, isDry, [dist, ...options]);
  if (!isDry) {
    // The tag first: a branch with the version but without its tag can't be released again.
    gitIn(root, 'tag', '--annotate', '--message', `stickpin ${version}`, tagOf(version), commit);
    try {
      gitIn(root, 'merge', '--quiet', '--ff-only', commit);
    } catch (error) {
      gitIn(root, 'tag', '--delete', tagOf(version));
      throw error;
    }
    const parts = ['arch', 'format'].flatMap((name) => values[name]);
    if (parts.length > 0) stdout.write(`These are not all packages of a release, only those for ${parts.join(', ')}\n`);
    stdout.write(`${version} is in ${dist}. To publish it: git push --follow-tags\n`);
  }
  for (const fault of faults) stdout.write(`A release is refused: ${fault}\n`);
}

async function faultsOf(version, signKey) {
  return releaseFaults({
    version,
    signKey,
    current: about.version,
    tags: gitIn(root, 'tag', '--list').split('\n'),
    changes: gitIn(root, 'status', '--porcelain'),
    changelog: await textOf('CHANGELOG.md'),
    security: await textOf('SECURITY.md'),
    author: about.author,
    homepage: about.homepage,
  });
}

/** Makes the commit of the version and its packages, and returns the commit. */
async function buildCommit(version, isDry, options) {
  // Hard links need the same filesystem.
  const tree = join(root, '.cache/release');
  await rm(tree, { recursive: true, force: true });
  gitIn(root, 'worktree', 'prune');
  gitIn(root, 'worktree', 'add', '--quiet', '--detach', tree, 'HEAD');
  try {
    await setVersion(tree, version);
    gitIn(tree, ...(isDry ? NOBODY : []), 'commit', '--quiet', '--all', '--message', `release: ${version}`);
    await copyModules(tree);
    if (isDry) execFileSync('cp', ['-al', join(root, 'node_modules'), tree]);
    else execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] });
    const {
      SOURCE_DATE_EPOCH: _epoch,
      STICKPIN_PACKAGE_VERSION: _version,
      STICKPIN_SIGN_KEY: _key,
      ...environment
    } = env;
    const argv = [join(tree, 'packaging/package.mjs'), ...options];
    execFileSync(process.execPath, argv, { cwd: root, env: environment, stdio: 'inherit' });
    return gitIn(tree, 'rev-parse', 'HEAD');
  } finally {
    gitIn(root, 'worktree', 'remove', '--force', tree);
  }
}

/** What was fetched for the other architecture. Its integrity is checked again. */
async function copyModules(tree) {
  const modules = join(root, '.cache/modules');
  await mkdir(join(tree, '.cache'));
  if (existsSync(modules)) execFileSync('cp', ['-al', modules, join(tree, '.cache')]);
}

/** Writes the version wherever it stands, and from which day on a clock can be right. */
async function setVersion(tree, version) {
  const now = Date.now();
  const change = async (path, changed) =>
    writeFile(join(tree, path), changed(await readFile(join(tree, path), 'utf8')));
  const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);
  const set = (text, name, value) => text.replace(new RegExp(`("${name}": ").*?"`), `$1${value}"`);
  await change('package.json', (text) => set(set(text, 'version', version), 'notBefore', dayOf(now - DAY_MS)));
  await change('package-lock.json', (text) => {
    const lock = JSON.parse(text);
    lock.version = version;
    lock.packages[''].version = version;
    return `${JSON.stringify(lock, null, 2)}\n`;
  });
  await change('CHANGELOG.md', (text) => releasedChangelog(text, version, dayOf(now)));
  await change('docs/examples/ansible/stickpin.yml', (text) => text.replaceAll(about.version, version));
}

try {
  await makeRelease();
} catch (error) {
  stderr.write(`release: ${error.message}\n`);
  exit(1);
}
