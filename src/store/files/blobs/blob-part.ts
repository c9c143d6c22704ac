import type { Hash } from 'node:crypto';
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../../domain/model/digest.ts';
import { hashOf } from '../layers/layer-files.ts';
import { mismatch } from '../write-error.ts';

export interface CopiedBlob {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

export interface CopySource {
  /** The bytes from `startByte` on. */
  read(startByte: number): AsyncIterable<Buffer>;
  /** Throws when there is no room. */
  requireRoom(sizeBytes: number): Promise<void>;
}

/** How long a part without a copy is kept. */
const PART_MAX_AGE_MS = 7 * 24 * 60 * 60 * 1000;

export function partName(digest: Digest): string {
  return `.${hexOf(digest)}.part`;
}

/**
 * Copies a blob to `path`, after the bytes of an earlier copy, which are hashed again. If the
 * digest is wrong with them, the copy begins anew, once.
 * @throws AppError `store/blob` (`retry`) when the digest is wrong; what `source` throws; system
 *   errors unchanged. Only a failure of `source` leaves a part
 */
export async function copyBlob(path: string, blob: CopiedBlob, source: CopySource, signal: AbortSignal): Promise<void> {
  const first = await copyRest(path, blob, source, signal);
  if (first.actual === blob.digest) return;
  await rm(path, { force: true });
  if (first.startByte === 0) throw mismatch(path, blob.digest, first.actual);
  const second = await copyRest(path, blob, source, signal);
  if (second.actual === blob.digest) return;
  await rm(path, { force: true });
  throw mismatch(path, blob.digest, second.actual);
}

interface Copied {
  /** Bytes that came beyond the requested ones are not part of it. */
  readonly actual: Digest;
  readonly startByte: number;
}

async function copyRest(path: string, { sizeBytes }: CopiedBlob, source: CopySource, signal: AbortSignal) {
  const file = await openPart(path);
  try {
    const { hash, lengthBytes: startByte } = await removedIfFailed(path, () => hashOf(file, signal), signal);
    if (startByte < sizeBytes) {
      await source.requireRoom(sizeBytes - startByte);
      await append(path, file, hash, { chunks: source.read(startByte), leftBytes: sizeBytes - startByte }, signal);
    }
    await removedIfFailed(path, () => file.sync(), signal);
    return { actual: digestFromHex(hash.digest('hex')), startByte } satisfies Copied;
  } catch (error) {
    await removeEmpty(path);
    throw error;
  } finally {
    await file.close();
  }
}

async function removeEmpty(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined);
  if (stats?.size === 0) await rm(path, { force: true }).catch(() => undefined); // the sweep removes it later
}

function openPart(path: string): Promise<FileHandle> {
  return open(path, 'a+', 0o644);
}

async function append(
  path: string,
  file: FileHandle,
  hash: Hash,
  { chunks, leftBytes }: { readonly chunks: AsyncIterable<Buffer>; readonly leftBytes: number },
  signal: AbortSignal,
): Promise<void> {
  let remaining = leftBytes;
  for await (const chunk of chunks) {
    remaining -= chunk.length;
    hash.update(chunk);
    // More than was signed is wrong, and may fill the disk.
    if (remaining < 0) break;
    await removedIfFailed(path, () => file.appendFile(chunk), signal);
  }
}

/** Not after a failure of the node's own disk: the end of the part is not known. */
async function removedIfFailed<T>(path: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!signal.aborted) await rm(path, { force: true }).catch(() => undefined); // the error has the reason
    throw error;
  }
}

/** Never throws: what stays is checked before the next copy. */
export async function sweepParts(folder: string, inUse: ReadonlySet<string>): Promise<void> {
  const oldest = Date.now() - PART_MAX_AGE_MS;
  await removeParts(folder, inUse, ({ mtimeMs }) => mtimeMs < oldest);
}

export async function dropParts(folder: string, inUse: ReadonlySet<string>): Promise<void> {
  await removeParts(folder, inUse, () => true);
}

async function removeParts(
  folder: string,
  inUse: ReadonlySet<string>,
  isGone: (stats: { readonly mtimeMs: number }) => boolean,
): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((one) => /^\.[0-9a-f]{64}\.part$/.test(one) && !inUse.has(one))) {
    const path = join(folder, name);
    const stats = await stat(path).catch(() => undefined);
    if (stats !== undefined && isGone(stats)) await rm(path, { force: true }).catch(() => undefined);
  }
}
