import { join } from 'node:path';
import type { Fault } from '../../domain/model/reason.ts';
import { AppError, systemCodeOf } from '../../platform/app-error.ts';
import type { HeldFolder } from '../../platform/files/held-folder.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import type { BundleErrorCode } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { findEntry, holdAround, holdIn, holdOnMedium, isPlainFile } from './bundle-directory.ts';
import { isBundleTar } from './open-bundle.ts';
import { mediaError } from './open-file.ts';

/**
 * Bundles are in the folder `stickpin` of a `medium`, and also directly below the drop `folder`.
 * For `bundle`, the root is a bundle.
 */
export type BundleLayout = 'medium' | 'folder' | 'bundle';

/** A bundle, or something like a bundle that can't be read. Paths are relative to the root. */
export type BundleCandidate =
  | { readonly kind: 'bundle'; readonly path: string }
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Fault };

/**
 * Sorts by path within each folder, without opening bundles. No link is followed.
 * @throws AppError `media/read`, `media/gone`; `bundle/link` when the path to `root` has a link
 */
export async function findBundles(root: string, layout: BundleLayout, signal: AbortSignal): Promise<BundleCandidate[]> {
  if (layout === 'bundle') return [await loadedBundle(root)];
  const top = await holdOnMedium(root, root);
  if (top === undefined) return [];
  try {
    return await searchMedium({ folder: top, path: '' }, layout, signal);
  } finally {
    await top.close();
  }
}

interface Spot {
  readonly folder: HeldFolder;
  readonly path: string;
}

async function loadedBundle(root: string): Promise<BundleCandidate> {
  const { folder, name } = await holdAround(root, root);
  try {
    const found = folder && (await lookAt('', () => candidateNamed(folder, name, '')));
    return found ?? unreadable('', 'bundle/absent', `${quotedPath(root)} is not a bundle any more`);
  } finally {
    await folder?.close();
  }
}

async function searchMedium(top: Spot, layout: BundleLayout, signal: AbortSignal): Promise<BundleCandidate[]> {
  const found: BundleCandidate[] = [];
  const home = await findHome(top.folder);
  if (typeof home === 'object') found.push(home);
  else if (home !== undefined) {
    const folder = await holdIn(top.folder, home).catch(undefinedForLink);
    try {
      if (folder !== undefined) found.push(...(await searchFolder({ folder, path: home }, true, signal)));
    } finally {
      await folder?.close();
    }
  }
  // Files beside `stickpin` on a medium are not ours, and may be many.
  const sought = layout === 'folder' ? limits.entriesSought : limits.topEntries;
  const beside = await searchFolder(top, layout === 'folder', signal, home, sought);
  const direct = beside.filter((one) => one.path !== home);
  const to = typeof home === 'string' ? home : 'stickpin';
  found.push(...(layout === 'folder' ? direct : direct.flatMap((one) => misplaced(one, to))));
  return found;
}

/** An error if several could be meant. @throws AppError `media/read`, `media/gone` */
async function findHome(top: HeldFolder): Promise<string | BundleCandidate | undefined> {
  try {
    return await findEntry(top, 'stickpin');
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'bundle/ambiguous') throw error;
    return { kind: 'unreadable', path: 'stickpin', reason: { code: error.code, message: error.message } };
  }
}

/** A bundle outside `stickpin` is probably a mistake and is reported; other files are not ours. */
function misplaced(candidate: BundleCandidate, home: string): BundleCandidate[] {
  if (candidate.kind !== 'bundle') return [];
  const { path } = candidate;
  const [where, advice] =
    path === ''
      ? ['at the top of the medium', `move all of it to ${join(home, '<name>-<version>-<arch>')}/`]
      : [`in ${quotedPath(path)}`, `move it to ${quotedPath(join(home, path))}`];
  return [unreadable(path, 'bundle/misplaced', `a bundle is ${where}, where it is not read: ${advice}`)];
}

/**
 * `isHome`: similar things are reported. `other`: is searched separately. `sought`: most entries.
 */
async function searchFolder(
  spot: Spot,
  isHome: boolean,
  signal: AbortSignal,
  other?: unknown,
  sought: number = limits.entriesSought,
): Promise<BundleCandidate[]> {
  signal.throwIfAborted();
  const { folder, path } = spot;
  const found: BundleCandidate[] = [];
  const direct = await lookAt(path, () => candidateIn(folder, path, sought));
  if (direct?.kind === 'bundle') {
    const advice = `move all of it into its own directory, such as ${join(quotedPath(path), '<name>-<version>-<arch>')}/`;
    found.push(
      path === ''
        ? direct
        : unreadable(
            path,
            'bundle/misplaced',
            `a bundle is in ${quotedPath(path)} itself, where it is not read: ${advice}`,
          ),
    );
  }
  const { names, isAll } = await listFolder(folder, sought);
  for (const name of names) {
    signal.throwIfAborted();
    const shown = join(path, name);
    const candidate = await lookAt(shown, () => candidateNamed(folder, name, shown, sought));
    if (candidate !== undefined) found.push(candidate);
    else if (isHome && name !== other) found.push(...(await nearlyFound(spot, name, signal)));
  }
  if (!isAll) found.push(...tooMany(path));
  return found;
}

/** Matches an archive that lacks the name of a bundle. */
const ARCHIVE = /^(.+?)(?:\.stickpin)?\.(tar|tgz|tar\.[a-z0-9]{1,5})$/i;
/** At most this many entries of a folder are searched for a bundle one level too deep. */
const DEEPER_ENTRIES = 64;

/** A bundle one folder too deep, or an archive that is probably one. */
async function nearlyFound({ folder, path }: Spot, name: string, signal: AbortSignal): Promise<BundleCandidate[]> {
  const shown = join(path, name);
  const [, stem, ending = ''] = ARCHIVE.exec(name) ?? [];
  if (stem !== undefined && (await isPlainFile(folder, name).catch(() => false))) {
    const target = quotedPath(join(path, `${stem}.stickpin.tar`));
    const how = ending.toLowerCase() === 'tar' ? 'rename it' : 'decompress it';
    const message = `${quotedPath(shown)} is not read, since a bundle in one file is named *.stickpin.tar and is not compressed: if it is a bundle, ${how} to ${target}; of images make one with stickpin bundle create --archive`;
    return [unreadable(shown, 'bundle/misplaced', message)];
  }
  const inner = await holdIn(folder, name).catch(() => undefined);
  try {
    const found: BundleCandidate[] = [];
    for (const below of (await inner?.names(DEEPER_ENTRIES).catch(() => [])) ?? []) {
      signal.throwIfAborted();
      const deep = join(shown, below);
      const one =
        inner && !isDropping(below) ? await lookAt(deep, () => candidateNamed(inner, below, deep)) : undefined;
      if (one?.kind !== 'bundle') continue;
      const message = `a bundle is in ${quotedPath(deep)}, one folder too deep to be read: move it to ${quotedPath(join(path, below))}`;
      found.push(unreadable(deep, 'bundle/misplaced', message));
    }
    return found;
  } finally {
    await inner?.close();
  }
}

/** Other files at the top of a medium are not ours. */
function tooMany(path: string): BundleCandidate[] {
  if (path === '') return [];
  const message = `${quotedPath(path)} holds more than ${limits.folderEntries} entries, and only these are searched: keep nothing but bundles there`;
  return [unreadable(path, 'bundle/crowded', message)];
}

async function listFolder(folder: HeldFolder, sought: number): Promise<{ names: string[]; isAll: boolean }> {
  try {
    const all = await folder.names(sought);
    const names = all.filter((name) => !isDropping(name)).sort();
    const isAll = all.length < sought && names.length <= limits.folderEntries;
    return { names: names.slice(0, limits.folderEntries), isAll };
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return { names: [], isAll: true };
    throw mediaError(folder.path, error);
  }
}

/** Desktops, editors and filesystems create such names. Hidden names are never bundles. */
function isDropping(name: string): boolean {
  const lower = name.toLowerCase();
  return (
    name.startsWith('.') ||
    name.endsWith('~') ||
    ['system volume information', '$recycle.bin', 'lost+found'].includes(lower)
  );
}

/** An unreadable candidate does not hide the others. @throws AppError `media/gone` */
async function lookAt(
  path: string,
  look: () => Promise<BundleCandidate | undefined>,
): Promise<BundleCandidate | undefined> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'media/gone') throw error;
    return { kind: 'unreadable', path, reason: { code: error.code, message: error.message } };
  }
}

async function candidateNamed(
  around: HeldFolder,
  name: string,
  shown: string,
  sought?: number,
): Promise<BundleCandidate | undefined> {
  if (isBundleTar(name)) return (await isPlainFile(around, name)) ? { kind: 'bundle', path: shown } : undefined;
  const folder = await holdIn(around, name).catch(undefinedForLink);
  try {
    return folder && (await candidateIn(folder, shown, sought));
  } finally {
    await folder?.close();
  }
}

async function candidateIn(folder: HeldFolder, shown: string, sought?: number): Promise<BundleCandidate | undefined> {
  if ((await findEntry(folder, 'bundle.dsse.json', sought)) !== undefined) return { kind: 'bundle', path: shown };
  if ((await findEntry(folder, 'oci-layout', sought)) === undefined) return undefined;
  return unreadable(
    shown,
    'bundle/incomplete',
    `${shown === '' ? 'the top folder' : quotedPath(shown)} holds an OCI image layout without bundle.dsse.json: if the copy was interrupted, copy it again; to make a bundle of it, use stickpin bundle create`,
  );
}

function undefinedForLink(error: unknown): undefined {
  if (!(error instanceof AppError) || error.code !== 'bundle/link') throw error;
  return undefined;
}

function unreadable(path: string, code: BundleErrorCode, message: string): BundleCandidate {
  return { kind: 'unreadable', path, reason: { code, message } };
}
