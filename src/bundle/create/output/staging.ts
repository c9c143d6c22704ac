import { chmod, lstat, mkdir, mkdtemp, readdir, rename, rm, rmdir, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { syncFolderIfPossible } from '../../../platform/files/durable-file.ts';
import { syncTree } from '../../../platform/files/file-access.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { bundleError } from '../../bundle-error.ts';
import { removeStale, stagingPrefix } from './staging-name.ts';

/**
 * Builds a directory all or nothing: `build` fills a hidden directory beside `target`, which is
 * then synced and renamed to `target`. An error or abort leaves nothing behind, no parent directory
 * of `target` either. Unfinished work of a killed process for the same target is removed.
 * Everything is synced to disk when this returns.
 *
 * @returns what `build` returns.
 * @throws AppError `bundle/target` (`reject`) when `target` is there and not empty, is a link or a
 *   mount point, can't be written, or is being written by another process; `bundle/no-space`
 *   (`wait`); whatever `build` throws.
 */
export async function buildDirectory<T>(
  target: string,
  build: (staging: string) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return buildBeside(target, refuseOccupied, async (staging) => {
    const built = await build(staging);
    // mkdtemp(3) lets nobody else in; files in it follow the umask.
    await chmod(staging, 0o777 & ~process.umask());
    await syncTree(staging, signal);
    return { path: staging, built };
  });
}

/** What was built, and where below the staging directory. */
export interface BuiltFile<T> {
  readonly path: string;
  readonly built: T;
}

/**
 * Like {@link buildDirectory}, for one file: `build` makes it anywhere in the hidden directory and
 * returns its path; all other files there are removed.
 *
 * @returns what `build` returns as built.
 * @throws AppError as {@link buildDirectory}; `bundle/target` (`reject`) when `target` is there.
 */
export async function buildFile<T>(target: string, build: (staging: string) => Promise<BuiltFile<T>>): Promise<T> {
  return buildBeside(target, refuseExisting, build);
}

/**
 * Refuses a target before long work, as {@link buildDirectory} or {@link buildFile} would.
 *
 * @throws AppError `bundle/target` (`reject`)
 */
export async function checkTarget(target: string, kind: 'directory' | 'file'): Promise<void> {
  const refuse = kind === 'file' ? refuseExisting : refuseOccupied;
  await refuse(resolve(target)).catch((error: unknown) => {
    throw targetError(target, error);
  });
}

async function buildBeside<T>(
  target: string,
  refuse: (path: string) => Promise<void>,
  build: (staging: string) => Promise<BuiltFile<T>>,
): Promise<T> {
  const path = resolve(target);
  let staging: string | undefined;
  let isDone = false;
  let madeParent: string | undefined;
  try {
    madeParent = await mkdir(dirname(path), { recursive: true });
    await refuse(path);
    // Created before the search for others, so that of two processes that start together at least
    // one sees the other.
    staging = await mkdtemp(await stagingPrefix(path));
    await removeStale(path);
    const { path: made, built } = await build(staging);
    // Checked again: building may have taken an hour.
    await refuse(path);
    await rename(made, path);
    isDone = true;
    await syncFolderIfPossible(dirname(path));
    return built;
  } catch (error) {
    throw targetError(path, error);
  } finally {
    // Nothing is left if the directory itself was renamed.
    if (staging !== undefined) await rm(staging, { recursive: true, force: true });
    if (!isDone && madeParent !== undefined) await removeEmpty(dirname(path), madeParent);
  }
}

/** Removes the directory `from` and those above it up to `to`, as long as they are empty. */
async function removeEmpty(from: string, to: string): Promise<void> {
  for (let path = from; path.length >= to.length; path = dirname(path)) {
    const isRemoved = await rmdir(path).then(
      () => true,
      () => false,
    );
    if (!isRemoved) return;
  }
}

/**
 * Refuses early when the filesystem of `directory` has less than `neededBytes` free. @throws
 * AppError `bundle/no-space` (`wait`)
 */
export async function checkSpace(directory: string, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  const freeBytes = bavail * bsize;
  if (freeBytes >= neededBytes) return;
  throw bundleError(
    'bundle/no-space',
    `not enough space in ${directory}: the bundle needs ${formatBytes(neededBytes)}, ${formatBytes(freeBytes)} are free`,
    { disposition: 'wait' },
  );
}

/**
 * Replaces or makes a file atomically: `write` makes it, synced, under another name.
 *
 * @throws AppError `bundle/target`, `bundle/no-space`; whatever `write` throws.
 */
export async function replaceOutput(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${await stagingPrefix(resolve(path))}staged`;
  try {
    await rm(temporary, { force: true });
    await removeStale(resolve(path));
    await write(temporary);
    await rename(temporary, path);
    await syncFolderIfPossible(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true });
    throw targetError(path, error);
  }
}

async function refuseExisting(path: string): Promise<void> {
  try {
    await lstat(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    throw error;
  }
  throw bundleError('bundle/target', `${path} exists already: choose another name or remove it`);
}

async function refuseOccupied(path: string): Promise<void> {
  try {
    if ((await lstat(path)).isSymbolicLink()) {
      throw bundleError('bundle/target', `${path} is a link: name its target`);
    }
    const isEmpty = (await readdir(path)).length === 0;
    if (isEmpty && (await stat(path)).dev === (await stat(dirname(path))).dev) return;
    if (isEmpty) {
      throw bundleError(
        'bundle/target',
        `${path} is a mount point, which can't be replaced: name a directory below it, on a stick stickpin/NAME-VERSION-ARCH`,
      );
    }
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    if (systemCodeOf(error) !== 'ENOTDIR') throw error;
  }
  throw bundleError(
    'bundle/target',
    `${path} exists already and is not an empty directory: choose another name or remove it`,
  );
}

function targetError(path: string, error: unknown): unknown {
  const code = systemCodeOf(error);
  if (error instanceof AppError || code === undefined) return error;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return bundleError(
      'bundle/no-space',
      `no space left while writing ${path}: free some, or choose another place; nothing was left behind`,
      {
        disposition: 'wait',
        cause: error,
      },
    );
  }
  if (code === 'ABORT_ERR') return error;
  if (code === 'EFBIG') {
    return bundleError(
      'bundle/target',
      `${path} would be larger than its filesystem allows: make a directory instead of a tar, or use exFAT or ext4`,
      { cause: error },
    );
  }
  return bundleError('bundle/target', `${path} can't be written: ${reasonOf(error)}`, { cause: error });
}
