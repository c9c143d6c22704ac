import { join } from 'node:path';
import { type BundleLayout, findBundles } from '../../bundle/read/find-bundles.ts';
import { isBundleTar, openBundle } from '../../bundle/read/open-bundle.ts';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import type { MediumBundle, OpenMedium } from './media-provider.ts';

/**
 * A medium that is a directory of this machine, or one `.stickpin.tar` file: `root` is its path.
 */
export function openFolderMedium(root: string, layout: BundleLayout): OpenMedium {
  return {
    place: root,
    findBundles: async (signal) =>
      (await findBundles(root, layout, signal)).map((found) =>
        found.kind === 'bundle' ? bundleAt(root, found.path) : found,
      ),
  };
}

/** @param path relative to `root`; empty when the root itself is the bundle */
function bundleAt(root: string, path: string): MediumBundle {
  const reader = openBundle(join(root, path), root);
  return { kind: 'bundle', path, reader, blobs: reader, fileOf: (digest) => fileOf(path, digest) };
}

/** The file of a blob, relative to the root of its medium; in a tar its name there. */
function fileOf(path: string, digest: Digest): string {
  const name = `blobs/sha256/${hexOf(digest)}`;
  return isBundleTar(path) ? `${name} in ${path}` : join(path, name);
}
