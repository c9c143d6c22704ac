import { readdir } from 'node:fs/promises';
import type { BundleReader } from '../bundle/bundle-reader.ts';
import { isBundleTar, openBundle } from '../bundle/open-bundle.ts';
import { AppError, systemCodeOf } from '../platform/app-error.ts';

/**
 * Read access to the bundle that a person named. On a stick a lacking envelope means a damaged bundle; here it mostly means another path.
 *
 * @throws AppError `cli/no-bundle` (`reject`) when there is none at `path`.
 */
export async function openNamedBundle(path: string): Promise<BundleReader> {
  const names = await readdir(path).catch((error: unknown) => {
    switch (systemCodeOf(error)) {
      case 'ENOENT':
        throw noBundle(`${path} is not there`);
      case 'ENOTDIR':
        if (isBundleTar(path)) return undefined;
        throw noBundle(`${path} is no directory; a bundle is a directory, or a file named *.stickpin.tar`);
      default:
        return undefined; // reading it will tell
    }
  });
  if (names !== undefined && !names.some((name) => name.toLowerCase() === 'bundle.dsse.json')) {
    throw noBundle(
      `${path} holds no bundle.dsse.json; name the directory that does, on a stick stickpin/NAME-VERSION-ARCH`,
    );
  }
  return openBundle(path);
}

function noBundle(message: string): AppError {
  return new AppError({ code: 'cli/no-bundle', message, disposition: 'reject' });
}
