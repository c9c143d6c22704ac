import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BundleId, digestFromHex, isDigest } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { fillNewFile, makeFolder, readIfPresent, syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import type { ReleaseFile, ReleaseFiles } from '../../ports/blobs.ts';
import { fileWriteError } from './write-error.ts';

/** Names of attachments begin with a letter or a digit. */
const MARKER = '.bundle';
/** Folders that are being made or removed. After a crash the first list removes them. */
const STAGED = '.staged-';

/**
 * The attached files of releases, each in a folder of two levels below `root`. A folder appears and
 * disappears with one rename. Folders without our marker are not ours and are not touched.
 */
export function createReleaseFiles(root: string): ReleaseFiles {
  let isSwept = false;
  return {
    list: async (signal) => {
      // Before the first list nothing of this process is in them.
      if (!isSwept) await sweep(root).catch(() => undefined); // a change says why
      isSwept = true;
      return listReleases(root, signal);
    },
    pathOf: (folder) => join(root, folder),
    install: async (folder, bundleId, files, signal) => {
      const staged = join(root, `${STAGED}${plainName(folder)}`);
      try {
        await sweep(root);
        await stage(staged, bundleId, files, signal);
        await makeFolder(dirname(join(root, folder)), 0o755);
        await retreat(root, folder);
        await rename(staged, join(root, folder));
        await syncParents(root, folder);
        await sweep(root);
      } catch (error) {
        await rm(staged, { recursive: true, force: true }).catch(() => undefined); // the error below has the reason
        signal.throwIfAborted();
        throw failed(join(root, folder), error);
      }
    },
    remove: async (folder, signal) => {
      signal.throwIfAborted();
      try {
        await retreat(root, folder);
        await syncParents(root, folder);
        // Removes the folder of the stream if it is empty now.
        await rmdir(dirname(join(root, folder))).catch(() => undefined);
        await sweep(root);
      } catch (error) {
        throw failed(join(root, folder), error);
      }
    },
  };
}

async function listReleases(root: string, signal: AbortSignal): Promise<ReadonlyMap<string, BundleId>> {
  const found = new Map<string, BundleId>();
  for (const name of await visibleNames(root)) {
    for (const version of await visibleNames(join(root, name))) {
      const bundleId = await ownerOf(join(root, name, version));
      signal.throwIfAborted();
      if (bundleId !== undefined) found.set(`${name}/${version}`, bundleId);
    }
  }
  return found;
}

async function stage(
  staged: string,
  bundleId: BundleId,
  files: readonly ReleaseFile[],
  signal: AbortSignal,
): Promise<void> {
  await mkdir(staged, { recursive: true, mode: 0o755 });
  for (const file of files) {
    const path = join(staged, file.name);
    if (!(await file.linkTo(path, signal))) await copy(file, path, signal);
  }
  await writeNewFile(join(staged, MARKER), `${bundleId}\n`);
  await syncFolder(staged);
}

/** @throws AppError `store/attachment` (`wait`) when what was read has another digest */
async function copy({ name, digest, read }: ReleaseFile, path: string, signal: AbortSignal): Promise<void> {
  const hash = createHash('sha256');
  await fillNewFile(path, async (target) => {
    for await (const chunk of read(signal)) {
      hash.update(chunk);
      await target.writeFile(chunk);
    }
  });
  const found = digestFromHex(hash.digest('hex'));
  if (found !== digest) throw damaged(name, digest, found);
}

/** Undefined when the folder is not ours. */
async function ownerOf(folder: string): Promise<BundleId | undefined> {
  const marker = (await readIfPresent(join(folder, MARKER)).catch(() => undefined))?.trim() ?? '';
  return isDigest(marker) ? (marker as BundleId) : undefined;
}

async function visibleNames(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '')) return [];
    throw failed(folder, error);
  });
  return names.filter((name) => !name.startsWith('.'));
}

/** The name of a stream contains no `@`. */
function plainName(folder: string): string {
  return folder.replace('/', '@');
}

async function syncParents(root: string, folder: string): Promise<void> {
  await syncFolder(dirname(join(root, folder))).catch(ignoreAbsent);
  await syncFolder(root);
}

function ignoreAbsent(error: unknown): void {
  if (systemCodeOf(error) !== 'ENOENT') throw error;
}

/** One rename does it. */
async function retreat(root: string, folder: string): Promise<void> {
  if ((await ownerOf(join(root, folder))) !== undefined)
    await rename(join(root, folder), join(root, `${STAGED}old-${plainName(folder)}`));
}

async function sweep(root: string): Promise<void> {
  await makeFolder(root, 0o755);
  for (const name of await readdir(root)) {
    if (name.startsWith(STAGED)) await rm(join(root, name), { recursive: true, force: true });
  }
}

function damaged(name: string, digest: string, found: string): AppError {
  return new AppError({
    code: 'store/attachment',
    message: `attachment ${name} should have digest ${digest}, and what was read has ${found}; copy the bundle to its medium again`,
    disposition: 'wait',
  });
}

function failed(path: string, cause: unknown): AppError {
  if (cause instanceof AppError) return cause;
  const message = `attached files in ${path} can't be written: ${reasonOf(cause)}; move away what is not stickpin's`;
  return fileWriteError(path, cause, 'store/release-files', message);
}
