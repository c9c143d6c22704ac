import { basename, dirname, join, relative } from 'node:path';
import { systemCodeOf } from '../../platform/app-error.ts';
import {
  type HeldFolder,
  holdBelow,
  holdFolder,
  holdWithoutLinks,
  withFolder,
} from '../../platform/files/held-folder.ts';
import { bundleError } from '../bundle-error.ts';
import { mediaError } from './open-file.ts';

/**
 * Keeps the folder at `path` open: a bundle, or a folder that is searched for bundles.
 *
 * @param root the medium's root: `path` itself or a parent of it. The path to the root is opened as
 *   `holdWithoutLinks()` does, and no link below the root is followed. Without a root, a user has
 *   named `path`, and links in it are followed.
 * @returns undefined when it is not there
 * @throws AppError `bundle/link` when a part of the path is a link or a file; `media/read`,
 *   `media/gone`
 */
export async function holdOnMedium(path: string, root: string | undefined): Promise<HeldFolder | undefined> {
  try {
    if (root === undefined) return await holdFolder(path);
    const names = relative(root, path).split('/');
    return await withFolder(holdWithoutLinks(root), (held) => holdBelow(held, names[0] === '' ? [] : names));
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw holdError(path, error);
  }
}

/** As {@link holdOnMedium}, for the folder around `path`, with the name that `path` has in it. */
export async function holdAround(
  path: string,
  root: string | undefined,
): Promise<{ folder: HeldFolder | undefined; name: string }> {
  const folder = dirname(path);
  // A bundle that was loaded by its path is the root of its medium.
  return { folder: await holdOnMedium(folder, root === path ? folder : root), name: basename(path) };
}

/**
 * Holds a folder in another one.
 *
 * @returns undefined when nothing is there
 * @throws AppError `bundle/link` when it is a link or a file; `media/read`, `media/gone`
 */
export async function holdIn(folder: HeldFolder, name: string): Promise<HeldFolder | undefined> {
  const path = join(folder.path, name);
  try {
    return await folder.openFolder(name);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw holdError(path, error);
  }
}

function holdError(path: string, cause: unknown): unknown {
  const code = systemCodeOf(cause);
  if (code !== 'ENOTDIR' && code !== 'ELOOP') return mediaError(path, cause);
  return bundleError('bundle/link', `${path} is not a directory; links are not followed: copy the bundle itself`, {
    cause,
  });
}
