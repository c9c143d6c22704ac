import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';

/** The folder of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * `package.json`. `STICKPIN_PACKAGE_VERSION` gives the packages another version, for tests of an
 * update; the program inside keeps its own.
 */
export const about = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
about.version = env.STICKPIN_PACKAGE_VERSION || about.version;

/**
 * The time that everything is dated with, in seconds since 1970: `SOURCE_DATE_EPOCH`, else that of
 * the commit, else the earliest time at which this version may run. So the same input makes the
 * same bytes.
 */
export const epoch =
  env.SOURCE_DATE_EPOCH ?? git('log', '-1', '--format=%ct') ?? String(Date.parse(about.notBefore) / 1000);
if (!/^\d{1,11}$/.test(epoch)) throw new Error(`SOURCE_DATE_EPOCH is '${epoch}', and must be seconds since 1970`);

/** Runs a program that must succeed; what it prints on standard output is dropped. */
export function run(file, args, options = {}) {
  try {
    execFileSync(file, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      ...options,
      env: { ...env, SOURCE_DATE_EPOCH: epoch, LC_ALL: 'C.UTF-8', TZ: 'UTC', ...options.env },
    });
  } catch (error) {
    if (error.code === 'ENOENT')
      throw new Error(`${file} is missing: install it, or leave the formats out that need it`);
    throw new Error(`${[file, ...args].join(' ')}: exit code ${error.status}\n${error.stderr}`, { cause: error });
  }
}

/** What git prints; undefined where this is no clone. */
export function git(...args) {
  try {
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}
