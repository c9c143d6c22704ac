import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import { type BundleCandidate, findBundles } from '../../bundle/read/find-bundles.ts';
import { isBundleTar, openBundle } from '../../bundle/read/open-bundle.ts';
import { openVolumes, volumesIn } from '../../bundle/verify/open-volumes.ts';
import { AppError, systemCodeOf } from '../../platform/app-error.ts';

/**
 * Opens the bundle at a given path: a directory, a tar file, or the directory with all its volumes
 * (`DIR/1`, `DIR/2` …).
 *
 * @throws AppError `cli/no-bundle` (`reject`) when there is none at `path`; as `openVolumes()`.
 */
export async function openNamedBundle(path: string, signal: AbortSignal): Promise<FileBundleReader> {
  const [first, ...others] = await volumesOfNamed(path);
  return others.length === 0 ? openBundle(first) : openVolumes(path, [first, ...others], signal);
}

/**
 * The paths of the bundle or of its volumes below `path`. On a stick a missing envelope means a
 * damaged bundle; here it usually means a wrong path.
 *
 * @throws AppError `cli/no-bundle` (`reject`)
 */
export async function volumesOfNamed(path: string): Promise<[string, ...string[]]> {
  const names = await readdir(path).catch((error: unknown) => {
    switch (systemCodeOf(error)) {
      case 'ENOENT':
        throw noBundle(`${path} is not there`);
      case 'ENOTDIR':
        if (isBundleTar(path)) return undefined;
        throw noBundle(`${path} is not a directory; a bundle is a directory, or a file named *.stickpin.tar`);
      default:
        return undefined; // reading it will give the error
    }
  });
  if (names !== undefined && !names.some((name) => name.toLowerCase() === 'bundle.dsse.json')) {
    const [first, ...others] = await volumesIn(path);
    if (first !== undefined) return [first, ...others];
    throw noBundle(
      `${path} holds no bundle.dsse.json; name the directory that does, on a stick stickpin/NAME-VERSION-ARCH`,
    );
  }
  return [path];
}

/**
 * The bundles of a stick, when `path` is the folder in which its folder `stickpin` is; paths are
 * relative to it. Undefined for anything else.
 *
 * @throws AppError `cli/no-bundle` (`reject`) for a stick without bundles; `media/read`,
 *   `media/gone`
 */
export async function bundlesOfStick(
  path: string,
  signal: AbortSignal,
): Promise<readonly BundleCandidate[] | undefined> {
  const names = (await readdir(path).catch(() => [])).map((name) => name.toLowerCase());
  if (!names.includes('stickpin') || names.includes('bundle.dsse.json')) return undefined;
  const found = await findBundles(resolve(path), 'medium', signal);
  if (found.length === 0) throw noBundle(`${path} is a stick without bundles: its folder stickpin holds none`);
  return found;
}

function noBundle(message: string): AppError {
  return new AppError({ code: 'cli/no-bundle', message, disposition: 'reject' });
}
