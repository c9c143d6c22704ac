import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BundleId, digestFromHex, isDigest } from '../domain/digest.ts';
import type { ReleaseFiles } from '../engine/ports.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { fileWriteError } from './write-error.ts';

/** Names the bundle whose files lie in a folder. Attachments begin with a letter or a digit, so that none is called like that. */
const MARKER = '.bundle';
/** Folders being made or taken away; those left behind by a crash go with the next change. */
const STAGED = '.staged-';

/**
 * The attached files of releases, a folder each below `root`. A folder appears and goes by one rename. Folders without our marker are not ours and are
 * not touched.
 */
export function createReleaseFiles(root: string): ReleaseFiles {
  return {
    list: async (signal) => {
      const names = await readdir(root).catch((error: unknown) => {
        if (systemCodeOf(error) === 'ENOENT') return [];
        throw failed(root, error);
      });
      const laid = new Map<string, BundleId>();
      for (const name of names.filter((one) => !one.startsWith('.'))) {
        const marker = await readFile(join(root, name, MARKER), { encoding: 'utf8', signal }).catch(() => '');
        signal.throwIfAborted();
        if (isDigest(marker.trim())) laid.set(name, marker.trim() as BundleId);
      }
      return laid;
    },
    lay: async (folder, bundleId, files, signal) => {
      const staged = join(root, `${STAGED}${folder}`);
      try {
        await sweep(root);
        await mkdir(staged, { recursive: true, mode: 0o755 });
        for (const { name, digest, read } of files) {
          const bytes = await read(signal);
          const found = digestFromHex(createHash('sha256').update(bytes).digest('hex'));
          if (found !== digest) throw damaged(name, digest, found);
          await writeSynced(join(staged, name), bytes);
        }
        await writeSynced(join(staged, MARKER), `${bundleId}\n`);
        await syncFolder(staged);
        await retreat(root, folder);
        await rename(staged, join(root, folder));
        await syncFolder(root);
        await sweep(root);
      } catch (error) {
        await rm(staged, { recursive: true, force: true }).catch(() => undefined); // the error below tells why
        signal.throwIfAborted();
        throw failed(join(root, folder), error);
      }
    },
    remove: async (folder) => {
      try {
        await retreat(root, folder);
        await syncFolder(root);
        await sweep(root);
      } catch (error) {
        throw failed(join(root, folder), error);
      }
    },
  };
}

/** Takes one of our folders out of sight at one stroke. */
async function retreat(root: string, folder: string): Promise<void> {
  const isOurs = await readFile(join(root, folder, MARKER)).then(
    () => true,
    () => false,
  );
  if (isOurs) await rename(join(root, folder), join(root, `${STAGED}old-${folder}`));
}

async function sweep(root: string): Promise<void> {
  await mkdir(root, { recursive: true, mode: 0o755 });
  for (const name of await readdir(root)) {
    if (name.startsWith(STAGED)) await rm(join(root, name), { recursive: true, force: true });
  }
}

async function writeSynced(path: string, content: Buffer | string): Promise<void> {
  const file = await open(path, 'wx', 0o644);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
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
