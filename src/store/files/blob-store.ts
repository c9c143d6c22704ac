import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/share-runs.ts';
import { digestOf } from '../../platform/digest.ts';
import { syncFolder, writeNewFile } from '../../platform/files/durable-file.ts';
import type { DocumentStore } from '../../ports/blobs.ts';
import { fileWriteError } from './write-error.ts';

/**
 * The small local blob store: manifests, indexes and configs of kept releases, so that tags can be
 * moved without the stick. Files are `<folder>/sha256/<hex>`; what is read back is checked against
 * its name, so a half-written file counts as absent. What was put is on the disk when `put`
 * resolves: a bundle is recorded as adopted after that, and its documents are not looked for again.
 *
 * @param syncNames has the names in a directory written to the disk
 */
export function createBlobStore(folder: string, syncNames = syncFolder): DocumentStore {
  const directory = join(folder, 'sha256');
  const blobs: BlobFolder = {
    folder,
    directory,
    namesSynced: shareRuns(() => syncNames(directory)),
    listed: undefined,
  };
  return {
    list: () => heldNames(blobs),
    sizeOf: async (digest, signal) => (await load(blobs, digest, signal))?.length,
    async *read(digest, startByte, signal) {
      const bytes = await load(blobs, digest, signal);
      if (bytes === undefined) throw absent(pathOf(blobs, digest));
      yield bytes.subarray(startByte);
    },
    remove: (digest) => remove(blobs, digest),
    put: (digest, bytes, signal) => put(blobs, digest, bytes, signal),
  };
}

/** The folder of blobs, and what is known of it. */
interface BlobFolder {
  readonly folder: string;
  /** Where the blobs are, in `folder`. */
  readonly directory: string;
  /** Has the names in `directory` written to the disk; calls at one time share a run. */
  readonly namesSynced: () => Promise<void>;
  /** Undefined before the directory was listed. */
  listed: Promise<Set<Digest>> | undefined;
}

function pathOf({ directory }: BlobFolder, digest: Digest): string {
  return join(directory, hexOf(digest));
}

/** What is there by its name; the directory is listed once. */
function heldNames(blobs: BlobFolder): Promise<Set<Digest>> {
  const { directory } = blobs;
  blobs.listed ??= listDirectory(directory).catch((error: unknown) => {
    blobs.listed = undefined;
    throw blobError(directory, 'listed', error);
  });
  return blobs.listed;
}

/** The bytes of a blob; undefined when it is absent or has changed. */
async function load(blobs: BlobFolder, digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
  const path = pathOf(blobs, digest);
  try {
    const bytes = await readFile(path, { signal });
    if (digestOf(bytes) === digest) return bytes;
    (await heldNames(blobs)).delete(digest);
    return undefined;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    signal.throwIfAborted();
    throw blobError(path, 'read', error);
  }
}

async function remove(blobs: BlobFolder, digest: Digest): Promise<void> {
  const path = pathOf(blobs, digest);
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw blobError(path, 'removed', error);
  }
  (await heldNames(blobs)).delete(digest);
}

async function put(blobs: BlobFolder, digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const { folder, directory } = blobs;
  const path = pathOf(blobs, digest);
  const actual = digestOf(bytes);
  if (actual !== digest) throw mismatch(path, digest, actual);
  const isThere = (await load(blobs, digest, signal)) !== undefined;
  let isRenamed = false;
  const staged = join(folder, `.${hexOf(digest)}.${randomBytes(4).toString('hex')}`);
  try {
    if (!isThere) {
      await mkdir(directory, { recursive: true });
      await writeNewFile(staged, bytes, { signal });
      await rename(staged, path);
      isRenamed = true;
    }
    // Also where another put has renamed it a moment ago.
    await blobs.namesSynced();
    (await heldNames(blobs)).add(digest);
  } catch (error) {
    // What is there under its own name counts as kept.
    await rm(isRenamed ? path : staged, { force: true }).catch(() => undefined); // the error below tells why
    signal.throwIfAborted();
    throw fileWriteError(folder, error, 'store/blob', `${path} can't be written: ${reasonOf(error)}`);
  }
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

/** `how`: what could not be done with `path`, as a participle. */
function blobError(path: string, how: string, cause: unknown): AppError {
  return new AppError({
    code: 'store/blob',
    message: `${path} can't be ${how}: ${reasonOf(cause)}`,
    disposition: 'retry',
    cause,
  });
}
