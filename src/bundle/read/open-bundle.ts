import { openBundleDirectory } from './bundle-directory.ts';
import type { FileBundleReader } from './bundle-reader.ts';
import { openBundleTar } from './bundle-tar.ts';

export function isBundleTar(path: string): boolean {
  return /\.stickpin\.tar$/i.test(path);
}

/**
 * A tar file by its name, else a directory. Opening touches nothing.
 *
 * @param root of the medium: no link between the two is followed. Default: a user named the bundle
 */
export function openBundle(path: string, root?: string): FileBundleReader {
  return isBundleTar(path) ? openBundleTar(path, root) : openBundleDirectory(path, root);
}
