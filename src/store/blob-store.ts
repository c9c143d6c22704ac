import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../domain/digest.ts';
import type { DocumentStore } from '../engine/ports.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';

/**
 * The small local blob store: manifests, indexes and configs of kept releases, so that tags can be moved without the stick. Files are
 * `<folder>/sha256/<hex>`; what is read back is checked against its name, so a half-written file counts as absent.
 */
export function createBlobStore(folder: string): DocumentStore {
  const directory = join(folder, 'sha256');
  const pathOf = (digest: Digest) => join(directory, hexOf(digest));

  async function load(digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
    try {
      const bytes = await readFile(pathOf(digest), { signal });
      const actual = digestFromHex(createHash('sha256').update(bytes).digest('hex'));
      return actual === digest ? bytes : undefined;
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
    sizeOf: async (digest, signal) => (await load(digest, signal))?.length,
    async *read(digest, startByte, signal) {
      const bytes = await load(digest, signal);
      if (bytes !== undefined) yield bytes.subarray(startByte);
    },
    put: async (digest, bytes, signal) => {
      if ((await load(digest, signal)) !== undefined) return;
      const staged = join(folder, `.${hexOf(digest)}.${randomBytes(4).toString('hex')}`);
      try {
        await mkdir(directory, { recursive: true });
        await writeFile(staged, bytes, { signal });
        await rename(staged, pathOf(digest));
      } catch (error) {
        await rm(staged, { force: true });
        signal.throwIfAborted();
        throw new AppError({
          code: systemCodeOf(error) === 'ENOSPC' ? 'store/no-space' : 'store/blob',
          message: `${pathOf(digest)} can't be written: ${reasonOf(error)}; make room on this filesystem`,
          disposition: 'retry',
          cause: error,
        });
      }
    },
  };
}
