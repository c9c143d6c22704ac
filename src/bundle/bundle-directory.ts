import type { Stats } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, hexOf } from '../domain/digest.ts';
import { systemCodeOf } from '../platform/app-error.ts';
import { bundleError } from './bundle-error.ts';
import type { BundleFile, BundleReader } from './bundle-reader.ts';
import { limits } from './limits.ts';
import { mediaError, openRegularFile, streamFile } from './open-file.ts';

/**
 * Read access to the bundle directory at `path`. Opening it touches nothing. Names are matched exactly first and then without regard to
 * case, for vfat and copies from it. No link below `path` is followed. Its methods throw as {@link BundleReader} says.
 */
export function openBundleDirectory(path: string): BundleReader {
  let blobFolder: Promise<string | undefined> | undefined;
  const blobPath = async (digest: Digest): Promise<string | undefined> => {
    blobFolder ??= findBlobFolder(path);
    // A folder that could not be found may be there next time: a medium that comes back, a copy that goes on.
    const folder = await blobFolder.catch((error: unknown) => {
      blobFolder = undefined;
      throw error;
    });
    if (folder === undefined) blobFolder = undefined;
    return folder === undefined ? undefined : join(folder, hexOf(digest));
  };
  const usualPath = (digest: Digest) => join(path, 'blobs', 'sha256', hexOf(digest));
  return {
    path,
    readFile: (name, maxBytes, signal) => readSmallFile(path, name, maxBytes, signal),
    placeOf: async (digest, signal) => {
      signal.throwIfAborted();
      const file = (await blobPath(digest)) ?? usualPath(digest);
      return { file, startByte: 0, sizeBytes: await sizeOfFile(file) };
    },
    sizeOf: async (digest, signal) => {
      signal.throwIfAborted();
      const file = await blobPath(digest);
      return file === undefined ? undefined : sizeOfFile(file);
    },
    async *read(digest, startByte, signal, allocate) {
      signal.throwIfAborted();
      yield* streamFile((await blobPath(digest)) ?? usualPath(digest), startByte, signal, undefined, allocate);
    },
  };
}

/**
 * The entry of a directory called `name`, by exact name or else regardless of case, as a full path; undefined when there is none. Only the first
 * {@link limits.entriesSought} entries are looked at in search of another spelling.
 *
 * @throws AppError `bundle/ambiguous` (`reject`) when several entries differ from it in case only; `media/read`, `media/gone`
 */
export async function findEntry(directory: string, name: string): Promise<string | undefined> {
  try {
    const exact = join(directory, name);
    if ((await statsOf(exact)) !== undefined) return exact;
    const [only, ...more] = await spellingsOf(directory, name);
    if (more.length > 0) throw ambiguous(directory, [only ?? '', ...more]);
    return only === undefined ? undefined : join(directory, only);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) return undefined;
    throw mediaError(directory, error);
  }
}

async function spellingsOf(directory: string, name: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await listNames(directory, limits.entriesSought)) {
    if (entry.toLowerCase() === name.toLowerCase()) found.push(entry);
  }
  return found.sort();
}

/** The names in a directory, at most `limit` of them, in no order. @throws system errors as they are */
export async function listNames(directory: string, limit: number): Promise<string[]> {
  const names: string[] = [];
  if (limit === 0) return names;
  for await (const { name } of await opendir(directory)) {
    names.push(name);
    // Nobody knows how many there are.
    if (names.length === limit) break;
  }
  return names;
}

function ambiguous(directory: string, names: readonly string[]) {
  return bundleError(
    'bundle/ambiguous',
    `${directory} holds ${names.join(' and ')}, which differ in upper and lower case only: remove all but the right one`,
  );
}

/** Whether `path` is a directory and no link to one. @throws AppError `media/read`, `media/gone` */
export async function isPlainDirectory(path: string): Promise<boolean> {
  return (await statsOf(path))?.isDirectory() ?? false;
}

/** Whether `path` is a regular file and no link to one. @throws AppError `media/read`, `media/gone` */
export async function isPlainFile(path: string): Promise<boolean> {
  return (await statsOf(path))?.isFile() ?? false;
}

async function findBlobFolder(path: string): Promise<string | undefined> {
  let folder = path;
  for (const name of ['blobs', 'sha256']) {
    const found = await findEntry(folder, name);
    if (found === undefined) return undefined;
    if (!(await isPlainDirectory(found))) {
      throw bundleError('bundle/link', `${found} is not a directory; links are not followed: copy the bundle itself`);
    }
    folder = found;
  }
  return folder;
}

async function sizeOfFile(file: string): Promise<number | undefined> {
  const found = await statsOf(file);
  return found?.isFile() ? found.size : undefined;
}

/** What is at `path`, links not followed, or undefined when nothing is. */
async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) return undefined;
    throw mediaError(path, error);
  }
}

async function readSmallFile(path: string, name: BundleFile, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  const file = await findEntry(path, name);
  const opened = file === undefined ? undefined : await openRegularFile(file);
  if (file === undefined || opened === undefined) {
    throw bundleError('bundle/absent', `${join(path, name)} is not there: the bundle is incomplete, copy it again`);
  }
  await opened.handle.close();
  if (opened.sizeBytes > maxBytes) {
    throw bundleError('bundle/digest', `${file} has ${opened.sizeBytes} bytes, and ${maxBytes} are allowed`);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of streamFile(file, 0, signal, opened.sizeBytes)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
