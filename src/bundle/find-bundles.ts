import { join, relative } from 'node:path';
import type { Reason } from '../domain/medium.ts';
import { AppError, systemCodeOf } from '../platform/app-error.ts';
import { findEntry, isPlainDirectory, isPlainFile, listNames } from './bundle-directory.ts';
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
  const found: BundleCandidate[] = [];
  const home = await findHome(root);
  if (typeof home === 'object') found.push(home);
  else if (home !== undefined) found.push(...(await searchFolder(root, home, signal)));
  const direct = (await searchFolder(root, root, signal)).filter((one) => join(root, one.path) !== home);
  found.push(...(layout === 'folder' ? direct : direct.flatMap((one) => misplaced(one))));
  return found;
}

/** The folder `stickpin`, or why nobody knows which one it is. @throws AppError `media/read`, `media/gone` */
async function findHome(root: string): Promise<string | BundleCandidate | undefined> {
  try {
    return await findEntry(root, 'stickpin');
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'bundle/ambiguous') throw error;
    return { kind: 'unreadable', path: 'stickpin', reason: { code: error.code, message: error.message } };
  }
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
  const { names, isAll } = await listFolder(folder);
  for (const name of names) {
    signal.throwIfAborted();
    const candidate = await looksAt(root, join(folder, name));
    if (candidate !== undefined) found.push(candidate);
  }
  if (!isAll) found.push(...crowded(root, folder));
  return found;
}

/** Whatever lies at the top of a medium is none of our business. */
function crowded(root: string, folder: string): BundleCandidate[] {
  if (folder === root) return [];
  const path = relative(root, folder);
  const message = `${path} holds more than ${limits.folderEntries} entries, and no more are looked at: keep nothing but bundles there`;
  return [unreadable(path, 'bundle/crowded', message)];
}

async function listFolder(folder: string): Promise<{ names: string[]; isAll: boolean }> {
  try {
    const all = await listNames(folder, limits.entriesSought);
    const names = all.filter((name) => !isDropping(name)).sort();
    const isAll = all.length < limits.entriesSought && names.length <= limits.folderEntries;
    return { names: names.slice(0, limits.folderEntries), isAll };
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) return { names: [], isAll: true };
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

/** What can't be looked at hides no other one. @throws AppError `media/gone` */
async function looksAt(root: string, path: string): Promise<BundleCandidate | undefined> {
  try {
    return await candidateAt(root, path);
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'media/gone') throw error;
    return { kind: 'unreadable', path: relative(root, path), reason: { code: error.code, message: error.message } };
  }
}

async function candidateAt(root: string, path: string): Promise<BundleCandidate | undefined> {
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
