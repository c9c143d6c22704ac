import { readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Reason } from '../domain/medium.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import { findEntry, isPlainDirectory, isPlainFile } from './bundle-directory.ts';
import type { BundleErrorCode } from './bundle-error.ts';
import { limits } from './limits.ts';
import { isBundleTar } from './open-bundle.ts';
import { mediaError } from './open-file.ts';

/**
 * Where bundles are looked for: on a `medium` in its folder `stickpin`; in the drop `folder` also directly below it; as `bundle` the root is one itself.
 */
export type BundleLayout = 'medium' | 'folder' | 'bundle';

/** Something that is a bundle, or looks like one that can't be read. Paths are relative to the root that was searched. */
export type BundleCandidate =
  | { readonly kind: 'bundle'; readonly path: string }
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Reason };

/**
 * Looks for bundles below `root`, without opening them. Editor and desktop droppings are ignored by name, and so is whatever doesn't look
 * like a bundle. Sorted by path within each folder.
 *
 * @throws AppError `media/read`, `media/gone`
 */
export async function findBundles(root: string, layout: BundleLayout, signal: AbortSignal): Promise<BundleCandidate[]> {
  if (layout === 'bundle')
    return [(await looksAt(root, root)) ?? unreadable('', 'bundle/absent', `${root} is no bundle any more`)];
  const home = await findEntry(root, 'stickpin');
  const found: BundleCandidate[] = [];
  if (home !== undefined) found.push(...(await searchFolder(root, home, signal)));
  const direct = (await searchFolder(root, root, signal)).filter((one) => join(root, one.path) !== home);
  found.push(...(layout === 'folder' ? direct : direct.flatMap((one) => misplaced(one))));
  return found;
}

/** A bundle outside of `stickpin` on a medium is a likely mistake; anything less certain there is none of our business. */
function misplaced(candidate: BundleCandidate): BundleCandidate[] {
  if (candidate.kind !== 'bundle') return [];
  const where = candidate.path === '' ? 'at the top of the medium' : `in ${candidate.path}`;
  return [
    unreadable(
      candidate.path,
      'bundle/misplaced',
      `a bundle lies ${where}, where it is not read: move it into a directory of its own below stickpin/`,
    ),
  ];
}

async function searchFolder(root: string, folder: string, signal: AbortSignal): Promise<BundleCandidate[]> {
  signal.throwIfAborted();
  if (!(await isPlainDirectory(folder))) return [];
  const found: BundleCandidate[] = [];
  const here = await looksAt(root, folder);
  if (here?.kind === 'bundle') {
    const path = relative(root, folder);
    const advice = `move all of it into a directory of its own, as ${join(path, '<name>-<version>-<arch>')}/`;
    found.push(
      path === ''
        ? here
        : unreadable(path, 'bundle/misplaced', `a bundle lies in ${path} itself, where it is not read: ${advice}`),
    );
  }
  for (const name of await listFolder(folder)) {
    signal.throwIfAborted();
    const candidate = await looksAt(root, join(folder, name));
    if (candidate !== undefined) found.push(candidate);
  }
  return found;
}

async function listFolder(folder: string): Promise<string[]> {
  try {
    const names = (await readdir(folder)).filter((name) => !isDropping(name));
    return names.sort().slice(0, limits.folderEntries);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) return [];
    throw mediaError(folder, error);
  }
}

/** Names that desktops, editors and filesystems leave behind. Hidden names are never bundles. */
function isDropping(name: string): boolean {
  const lower = name.toLowerCase();
  return (
    name.startsWith('.') ||
    name.endsWith('~') ||
    ['system volume information', '$recycle.bin', 'lost+found'].includes(lower)
  );
}

async function looksAt(root: string, path: string): Promise<BundleCandidate | undefined> {
  const shown = relative(root, path);
  if (isBundleTar(path)) return (await isPlainFile(path)) ? { kind: 'bundle', path: shown } : undefined;
  if (!(await isPlainDirectory(path))) return undefined;
  if ((await findEntry(path, 'bundle.dsse.json')) !== undefined) return { kind: 'bundle', path: shown };
  if ((await findEntry(path, 'oci-layout')) === undefined) return undefined;
  return unreadable(
    shown,
    'bundle/incomplete',
    `${shown === '' ? 'the top folder' : shown} holds an OCI image layout without bundle.dsse.json: copy it to the end, or make a bundle of it with stickpin bundle create`,
  );
}

function unreadable(path: string, code: BundleErrorCode, message: string): BundleCandidate {
  return { kind: 'unreadable', path, reason: { code, message } };
}
