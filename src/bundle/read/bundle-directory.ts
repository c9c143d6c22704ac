import type { Stats } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { type Digest, hexOf } from '../../domain/model/digest.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import {
  type HeldFolder,
  holdBelow,
  holdFolder,
  holdWithoutLinks,
  shareFolder,
  withFolder,
} from '../../platform/files/held-folder.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import type { BundleFile, FileBundleReader } from './bundle-reader.ts';
import { mediaError, openRegularFileIn, streamOpened } from './open-file.ts';

/** The folder of blobs stays open for these milliseconds: each use would open all from `/` on. */
const KEEP_MS = 300;

/**
 * Opening reads nothing. Names match exactly, else without case, for vfat and copies from it. An
 * access opens folder by folder and follows no link below `path` or between `root` and `path`, see
 * `holdOnMedium()`.
 * @param root of the medium; default none, for a bundle that a user named
 */
export function openBundleDirectory(path: string, root?: string): FileBundleReader {
  const inBundle = shareFolder(() => holdOnMedium(path, root));
  const openBlobs = () => inBundle(async (bundle) => bundle && holdBlobs(bundle));
  const inBlobs = shareFolder(openBlobs, root === undefined ? 0 : KEEP_MS);
  const usualPath = (digest: Digest) => join(path, 'blobs', 'sha256', hexOf(digest));
  const openBlob = (digest: Digest) => inBlobs(async (blobs) => blobs && openRegularFileIn(blobs, hexOf(digest)));
  return {
    path,
    hold: (run) =>
      inBundle(async () => {
        // The reader of a blob reports why it can't be opened; the envelope may give a better
        // reason.
        const isReadable = await inBlobs(async () => true).catch(() => false);
        return isReadable ? inBlobs(run) : run();
      }),
    readFile: async (name, maxBytes, signal) => {
      signal.throwIfAborted();
      return inBundle((bundle) => readSmallFile(bundle, join(path, name), name, maxBytes, signal));
    },
    placeOf: async (digest, signal) => {
      signal.throwIfAborted();
      return inBlobs(async (blobs) => ({
        file: blobs === undefined ? usualPath(digest) : join(blobs.path, hexOf(digest)),
        startByte: 0,
        sizeBytes: blobs && (await sizeOfFile(blobs, hexOf(digest))),
      }));
    },
    sizeOf: async (digest, signal) => {
      signal.throwIfAborted();
      return inBlobs(async (blobs) => blobs && sizeOfFile(blobs, hexOf(digest)));
    },
    read: (digest, startByte, signal, allocate) =>
      streamOpened(usualPath(digest), () => openBlob(digest), startByte, signal, undefined, allocate),
  };
}

/**
 * Finds the entry by its exact name, or else without case among the first `sought` entries.
 * @throws AppError `bundle/ambiguous` when several differ in case only; `media/read`, `media/gone`
 */
export async function findEntry(
  folder: HeldFolder,
  name: string,
  sought: number = limits.entriesSought,
): Promise<string | undefined> {
  if ((await statsOf(folder, name)) !== undefined) return name;
  try {
    const [only, ...more] = await spellingsOf(folder, name, sought);
    if (more.length > 0) throw ambiguous(folder.path, [only ?? '', ...more]);
    return only;
  } catch (error) {
    throw mediaError(folder.path, error);
  }
}

async function spellingsOf(folder: HeldFolder, name: string, sought: number): Promise<string[]> {
  const names = await folder.names(sought);
  return names.filter((entry) => entry.toLowerCase() === name.toLowerCase()).sort();
}

function ambiguous(directory: string, names: readonly string[]) {
  const message = `${quotedPath(directory)} holds ${names.join(' and ')}, which differ in upper and lower case only: remove all but the right one`;
  return bundleError('bundle/ambiguous', message);
}

/** A link is none. @throws AppError `media/read`, `media/gone` */
export async function isPlainFile(folder: HeldFolder, name: string): Promise<boolean> {
  return (await statsOf(folder, name))?.isFile() ?? false;
}

async function holdBlobs(bundle: HeldFolder): Promise<HeldFolder | undefined> {
  const name = await findEntry(bundle, 'blobs');
  const blobs = name === undefined ? undefined : await holdIn(bundle, name);
  if (blobs === undefined) return undefined;
  try {
    const inner = await findEntry(blobs, 'sha256');
    return inner === undefined ? undefined : await holdIn(blobs, inner);
  } finally {
    await blobs.close();
  }
}

async function sizeOfFile(folder: HeldFolder, name: string): Promise<number | undefined> {
  const found = await statsOf(folder, name);
  return found?.isFile() ? found.size : undefined;
}

/** Follows no link. */
async function statsOf(folder: HeldFolder, name: string): Promise<Stats | undefined> {
  try {
    return await folder.stat(name);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw mediaError(join(folder.path, name), error);
  }
}

async function readSmallFile(
  folder: HeldFolder | undefined,
  path: string,
  name: BundleFile,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const found = folder && (await findEntry(folder, name));
  const opened = folder && found !== undefined ? await openRegularFileIn(folder, found) : undefined;
  if (opened === undefined) {
    throw bundleError('bundle/absent', `${quotedPath(path)} is not there: the bundle is incomplete, copy it again`);
  }
  const { handle, sizeBytes } = opened;
  try {
    if (sizeBytes > maxBytes) {
      throw bundleError('bundle/digest', `${quotedPath(path)} has ${sizeBytes} bytes, and ${maxBytes} are allowed`);
    }
    const chunks: Buffer[] = [];
    for await (const chunk of streamOpened(path, async () => opened, 0, signal, sizeBytes)) chunks.push(chunk);
    return Buffer.concat(chunks);
  } finally {
    await handle.close();
  }
}

/**
 * Keeps the folder at `path` open. Returns undefined when it does not exist.
 * @param root the medium's root: no link from there to `path` or below it is followed. Without a
 * root, a user has named `path`, and links in it are followed.
 * @throws AppError `bundle/link` for a link or a file in the path; `media/read`, `media/gone`
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

export async function holdAround(
  path: string,
  root: string | undefined,
): Promise<{ folder: HeldFolder | undefined; name: string }> {
  const folder = dirname(path);
  // A bundle that was loaded by its path is the root of its medium.
  return { folder: await holdOnMedium(folder, root === path ? folder : root), name: basename(path) };
}

/** Undefined means that it is absent. @throws AppError `bundle/link`; `media/read`, `media/gone` */
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
  const message = `${quotedPath(path)} is not a directory; links are not followed: copy the bundle itself`;
  return bundleError('bundle/link', message, { cause });
}
