import { randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { link, readdir, readFile, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { untilAborted } from '../../../platform/async/abort.ts';
import { shareRuns } from '../../../platform/async/concurrency.ts';
import { digestOf } from '../../../platform/digest.ts';
import { makeFolder, syncFolder, writeNewFile } from '../../../platform/files/durable-file.ts';
import { type Allocate, newBuffer, oneBuffer } from '../../../platform/files/file-access.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import type { AttachmentStore, DocumentStore } from '../../../ports/blobs.ts';
import { CHANGED, readChecked } from '../layers/layer-files.ts';
import { absentBlob, blobError, fileWriteError, mismatch } from '../write-error.ts';
import { type CopiedBlob, type CopySource, copyBlob, dropParts, partName, sweepParts } from './blob-part.ts';

/**
 * Manifests, indexes and configs of kept releases, so that tags can be moved without the stick, and
 * attachments. Files are `<folder>/sha256/<hex>`. What is read is checked against its name, so a
 * half-written file counts as absent. What was put is on the disk when `put` resolves.
 */
export class FileBlobs implements DocumentStore, AttachmentStore {
  private readonly directory: string;
  /** Concurrent calls share a run. */
  private readonly namesSynced: () => Promise<void>;
  private listed: Promise<Set<Digest>> | undefined;
  /** Names in `folder` of files that are being written. */
  private readonly staging = new Set<string>();
  /** The {@link stampOf} of small files that were read and had the right digest. */
  private readonly checked = new Map<Digest, string>();

  /** @param minFreePercent the share of the filesystem that a large blob leaves free, in percent */
  constructor(
    private readonly folder: string,
    syncNames = syncFolder,
    private readonly minFreePercent = () => 0,
  ) {
    this.directory = join(folder, 'sha256');
    this.namesSynced = shareRuns(() => syncNames(this.directory));
  }

  list(signal: AbortSignal): Promise<Set<Digest>> {
    return untilAborted(this.held(), signal);
  }

  async sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    // Most requested blobs are on a medium only.
    if (!(await this.list(signal)).has(digest)) return undefined;
    const found = await statsOf(this.pathOf(digest));
    if (found === undefined) return undefined;
    if (found.size > SMALL_BYTES || this.checked.get(digest) === stampOf(found)) return found.size;
    const bytes = await this.load(digest, signal);
    if (bytes !== undefined) this.checked.set(digest, stampOf(found));
    return bytes?.length;
  }

  async *read(
    digest: Digest,
    startByte: number,
    signal: AbortSignal,
    allocate: Allocate = newBuffer,
  ): AsyncGenerator<Buffer> {
    const path = this.pathOf(digest);
    if (!(await this.list(signal)).has(digest)) throw absentBlob(path);
    const sizeBytes = await largeSizeOf(path);
    if (sizeBytes === undefined) {
      const bytes = await this.load(digest, signal);
      if (bytes === undefined) throw absentBlob(path);
      yield bytes.subarray(startByte);
      return;
    }
    try {
      yield* readChecked({ path, digest, sizeBytes, startByte }, signal, allocate);
    } catch (error) {
      signal.throwIfAborted();
      if (error !== CHANGED) throw blobError(path, 'read', error);
      await this.remove(digest, signal);
      throw blobError(path, 'used', error);
    }
  }

  async remove(digest: Digest, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const path = this.pathOf(digest);
    try {
      await rm(path, { force: true });
    } catch (error) {
      throw blobError(path, 'removed', error);
    }
    await this.forget(digest);
  }

  async put(digest: Digest, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const actual = digestOf(bytes);
    if (actual !== digest) throw mismatch(this.pathOf(digest), digest, actual);
    await this.keep(digest, (staged) => writeNewFile(staged, bytes, { signal }), signal);
  }

  /** Continues a cut copy. Of two copies of a blob at once, the second one begins anew. */
  async putStream(blob: CopiedBlob, read: CopySource['read'], signal: AbortSignal): Promise<void> {
    const { folder, staging } = this;
    const room = (sizeBytes: number) => requireRoom(folder, sizeBytes, this.minFreePercent());
    const source: CopySource = {
      read,
      requireRoom: async (sizeBytes) => {
        if (blob.sizeBytes <= SMALL_BYTES) return;
        await room(sizeBytes).catch(() => dropParts(folder, staging).then(() => room(sizeBytes)));
      },
    };
    await sweepParts(folder, staging);
    const part = partName(blob.digest);
    const name = staging.has(part) ? undefined : part;
    await this.keep(blob.digest, (staged) => copyBlob(staged, blob, source, signal), signal, name);
  }

  async linkTo(digest: Digest, path: string, signal: AbortSignal): Promise<boolean> {
    const blobPath = this.pathOf(digest);
    if ((await largeSizeOf(blobPath)) === undefined) return false;
    try {
      for await (const _chunk of this.read(digest, 0, signal, oneBuffer())) signal.throwIfAborted();
      await link(blobPath, path);
      return true;
    } catch {
      signal.throwIfAborted();
      return false; // it is read instead, and the write reports its failure
    }
  }

  private pathOf(digest: Digest): string {
    return join(this.directory, hexOf(digest));
  }

  private held(): Promise<Set<Digest>> {
    const { folder, directory, staging } = this;
    this.listed ??= sweepStaged(folder, staging)
      .then(() => sweepParts(folder, staging))
      .then(() => listDirectory(directory))
      .catch((error: unknown) => {
        this.listed = undefined;
        throw blobError(directory, 'listed', error);
      });
    return this.listed;
  }

  /** Undefined when it is absent or has changed. */
  private async load(digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
    const path = this.pathOf(digest);
    try {
      const bytes = await readFile(path, { signal });
      if (digestOf(bytes) === digest) return bytes;
      await this.forget(digest);
      return undefined;
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      signal.throwIfAborted();
      throw blobError(path, 'read', error);
    }
  }

  private async forget(digest: Digest): Promise<void> {
    this.checked.delete(digest);
    (await this.held()).delete(digest);
  }

  /**
   * Gives a blob its name once `write` has made it. An existing one is kept.
   * @param partial the name under which it is made, so that a later call continues it. Default: a
   *   random name, which is removed after a failure
   */
  private async keep(
    digest: Digest,
    write: (staged: string) => Promise<void>,
    signal: AbortSignal,
    partial?: string,
  ): Promise<void> {
    const { folder, directory, staging } = this;
    const path = this.pathOf(digest);
    let isRenamed = false;
    const name = partial ?? `.${hexOf(digest)}.${randomBytes(4).toString('hex')}`;
    const staged = join(folder, name);
    staging.add(name);
    try {
      if ((await this.sizeOf(digest, signal)) === undefined) {
        await makeFolder(directory);
        await write(staged);
        await rename(staged, path);
        isRenamed = true;
      }
      // Also when a concurrent put has just renamed it.
      await this.namesSynced();
      (await this.held()).add(digest);
    } catch (error) {
      // A file with its final name counts as kept, so it must go.
      const unwanted = isRenamed ? path : partial === undefined ? staged : undefined;
      if (unwanted !== undefined) await rm(unwanted, { force: true }).catch(() => undefined); // the error below has the reason
      signal.throwIfAborted();
      if (error instanceof AppError) throw error;
      throw fileWriteError(folder, error, 'store/blob', `${path} can't be written: ${reasonOf(error)}`);
    } finally {
      staging.delete(name);
    }
  }
}

function stampOf({ size, mtimeMs, ctimeMs, ino }: Stats): string {
  return [size, mtimeMs, ctimeMs, ino].join();
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

/** Read whole and checked each time. A larger one is an attachment, checked at its end. */
const SMALL_BYTES = 16 * 1024 * 1024;

/** Undefined when it is absent. @throws AppError `store/blob` */
async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw blobError(path, 'read', error);
  }
}

/** Undefined for a small file and for none. */
async function largeSizeOf(path: string): Promise<number | undefined> {
  const size = (await statsOf(path))?.size;
  return size !== undefined && size > SMALL_BYTES ? size : undefined;
}

/** @throws AppError `store/no-space`, `store/blob` (`retry`) */
async function requireRoom(folder: string, sizeBytes: number, percent: number): Promise<void> {
  await makeFolder(folder).catch((error: unknown) => {
    throw blobError(folder, 'made', error);
  });
  const { bavail, blocks, bsize } = await statfs(folder);
  const reservedBytes = (blocks * bsize * percent) / 100;
  if (bavail * bsize - sizeBytes >= reservedBytes) return;
  const need = `needs ${formatBytes(sizeBytes)}, ${formatBytes(bavail * bsize)} are free, and ${formatBytes(reservedBytes)} (${percent} %) must stay free by preload.min_free_percent`;
  throw new AppError({
    code: 'store/no-space',
    message: `Not enough space in ${folder} for an attachment: it ${need}. Make room; it continues automatically`,
    disposition: 'retry',
  });
}

/** Never throws: the next start removes the rest. */
async function sweepStaged(folder: string, staging: ReadonlySet<string>): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const stale = names.filter((name) => /^\.[0-9a-f]{64}\.[0-9a-f]{8}$/.test(name) && !staging.has(name));
  for (const name of stale) await rm(join(folder, name), { force: true }).catch(() => undefined);
}
