import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../domain/model/digest.ts';
import { systemCodeOf } from '../../platform/app-error.ts';
import type { Allocate } from '../../platform/files/chunk-buffer.ts';

const CHUNK_BYTES = 1024 * 1024;
const PARTIAL = '.part';

/** What was written of a layer so far; the hash goes on with it, so that nothing is read again. */
export interface Partial {
  readonly hash: Hash;
  lengthBytes: number;
  /** What lies before was left by an earlier run, maybe in a power cut. */
  readonly ownFromByte: number;
}

/** Where a whole layer is. */
export function layerPath(folder: string, digest: Digest): string {
  return join(folder, hexOf(digest));
}

/** Where a layer is while it is being written. */
export function partialPath(folder: string, digest: Digest): string {
  return layerPath(folder, digest) + PARTIAL;
}

/** Whether a hash that is complete is that of `digest`. Ends the hash. */
export function hasDigest({ hash }: Partial, digest: Digest): boolean {
  return digestFromHex(hash.digest('hex')) === digest;
}

/** The device of what is at `path`, or of the folder in which it would be made. */
export async function deviceOf(path: string): Promise<number> {
  try {
    return (await stat(path)).dev;
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    return deviceOf(dirname(path));
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Layers of which a part was written. */
export async function listPartials(folder: string): Promise<Digest[]> {
  const names = (await namesIn(folder)).filter((name) => /^[0-9a-f]{64}\.part$/.test(name));
  return names.map((name) => digestFromHex(name.slice(0, -PARTIAL.length)));
}

/**
 * Whole layers and their sizes. What an earlier run left half-written stays, to be gone on with.
 */
export async function listFolder(folder: string): Promise<Map<Digest, number>> {
  const found = new Map<Digest, number>();
  for (const name of (await namesIn(folder)).filter((one) => /^[0-9a-f]{64}$/.test(one))) {
    const stats = await stat(join(folder, name));
    if (stats.isFile()) found.set(digestFromHex(name), stats.size);
  }
  return found;
}

/** Hashes what an earlier run left of a layer. */
export async function hashOf(handle: FileHandle): Promise<Partial> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, at);
    if (bytesRead === 0) return { hash, lengthBytes: at, ownFromByte: at };
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/** Writes all bytes at a position. */
export async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/**
 * Reads a file from a byte up to `sizeBytes`, in chunks of at most 1 MiB.
 *
 * @throws Error when it is shorter, and system errors as they are
 */
export async function* readFrom(
  path: string,
  startByte: number,
  sizeBytes: number,
  signal: AbortSignal,
  allocate: Allocate,
): AsyncGenerator<Buffer> {
  const handle = await open(path, 'r');
  try {
    for (let at = startByte; at < sizeBytes; ) {
      signal.throwIfAborted();
      const into = allocate(Math.min(CHUNK_BYTES, sizeBytes - at));
      const { bytesRead, buffer } = await handle.read(into, 0, into.length, at);
      if (bytesRead === 0) throw new Error(`it ends at byte ${at} of ${sizeBytes}`);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
