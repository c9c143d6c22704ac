import { createHash, randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/share-runs.ts';
import type { DocumentStore } from '../../ports/blobs.ts';
import { fileWriteError } from './write-error.ts';

/**
 * The small local blob store: manifests, indexes and configs of kept releases, so that tags can be moved without the stick. Files are
 * `<folder>/sha256/<hex>`; what is read back is checked against its name, so a half-written file counts as absent. What was put is on the disk
 * when `put` resolves: a bundle is recorded as adopted after that, and its documents are not looked for again.
 *
 * @param syncNames has the names in a directory written to the disk
 */
export function createBlobStore(folder: string, syncNames = syncDirectory): DocumentStore {
  const directory = join(folder, 'sha256');
  const pathOf = (digest: Digest) => join(directory, hexOf(digest));
  let listed: Promise<Set<Digest>> | undefined;
  const names = (): Promise<Set<Digest>> => {
    listed ??= listDirectory(directory).catch((error: unknown) => {
      listed = undefined;
      throw new AppError({
        code: 'store/blob',
        message: `${directory} can't be listed: ${reasonOf(error)}`,
        disposition: 'retry',
        cause: error,
      });
    });
    return listed;
  };

  const namesSynced = shareRuns(() => syncNames(directory));

  async function load(digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
    try {
      const bytes = await readFile(pathOf(digest), { signal });
      if (digestOf(bytes) === digest) return bytes;
      (await names()).delete(digest);
      return undefined;
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      signal.throwIfAborted();
      throw new AppError({
        code: 'store/blob',
        message: `${pathOf(digest)} can't be read: ${reasonOf(error)}`,
        disposition: 'retry',
        cause: error,
      });
    }
  }

  return {
    list: names,
    sizeOf: async (digest, signal) => (await load(digest, signal))?.length,
    async *read(digest, startByte, signal) {
      const bytes = await load(digest, signal);
      if (bytes === undefined) throw absent(pathOf(digest));
      yield bytes.subarray(startByte);
    },
    remove: async (digest) => {
      try {
        await rm(pathOf(digest), { force: true });
      } catch (error) {
        throw new AppError({
          code: 'store/blob',
          message: `${pathOf(digest)} can't be removed: ${reasonOf(error)}`,
          disposition: 'retry',
          cause: error,
        });
      }
      (await names()).delete(digest);
    },
    put: async (digest, bytes, signal) => {
      const actual = digestOf(bytes);
      if (actual !== digest) throw mismatch(pathOf(digest), digest, actual);
      const isThere = (await load(digest, signal)) !== undefined;
      let isRenamed = false;
      const staged = join(folder, `.${hexOf(digest)}.${randomBytes(4).toString('hex')}`);
      try {
        if (!isThere) {
          await mkdir(directory, { recursive: true });
          await writeThrough(staged, bytes, signal);
          await rename(staged, pathOf(digest));
          isRenamed = true;
        }
        // Also where another put has renamed it a moment ago.
        await namesSynced();
        (await names()).add(digest);
      } catch (error) {
        // What is there under its own name counts as kept.
        await rm(isRenamed ? pathOf(digest) : staged, { force: true }).catch(() => undefined); // the error below tells why
        signal.throwIfAborted();
        throw fileWriteError(folder, error, 'store/blob', `${pathOf(digest)} can't be written: ${reasonOf(error)}`);
      }
    },
  };
}

async function listDirectory(directory: string): Promise<Set<Digest>> {
  try {
    const names = await readdir(directory);
    return new Set(names.filter((name) => /^[0-9a-f]{64}$/.test(name)).map(digestFromHex));
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return new Set();
    throw error;
  }
}

function digestOf(bytes: Buffer): Digest {
  return digestFromHex(createHash('sha256').update(bytes).digest('hex'));
}

async function writeThrough(path: string, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.writeFile(bytes, { signal });
    await file.sync();
  } finally {
    await file.close();
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function absent(path: string): AppError {
  return new AppError({ code: 'media/gone', message: `${path} is not there`, disposition: 'wait' });
}

function mismatch(path: string, digest: Digest, actual: Digest): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} is not written: it should hold ${digest}, and what was read from the medium has digest ${actual}; copy the bundle to the medium again`,
    disposition: 'retry',
  });
}
