import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Digest, digestFromHex, hexOf } from '../../../domain/model/digest.ts';
import { systemCodeOf } from '../../../platform/app-error.ts';
import { digestOf } from '../../../platform/digest.ts';
import type { Allocate } from '../../../platform/files/file-access.ts';

const CHUNK_BYTES = 1024 * 1024;
const PARTIAL = '.part';

export interface Partial {
  readonly hash: Hash;
  lengthBytes: number;
  /** Bytes before this offset are from an earlier process, maybe from before a power cut. */
  readonly ownFromByte: number;
}

export function layerPath(folder: string, digest: Digest): string {
  return join(folder, hexOf(digest));
}

export function partialPath(folder: string, digest: Digest): string {
  return layerPath(folder, digest) + PARTIAL;
}

export function hasDigest({ hash }: Partial, digest: Digest): boolean {
  return digestFromHex(hash.digest('hex')) === digest;
}

/** Returns the device of `path`, or of its nearest parent folder that exists. */
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

/** Sizes in bytes. One that gets its final name meanwhile is left out. */
export async function listPartials(folder: string): Promise<Map<Digest, number>> {
  const found = new Map<Digest, number>();
  for (const name of (await namesIn(folder)).filter((one) => /^[0-9a-f]{64}\.part$/.test(one))) {
    const stats = await stat(join(folder, name)).catch(() => undefined);
    if (stats !== undefined) found.set(digestFromHex(name.slice(0, -PARTIAL.length)), stats.size);
  }
  return found;
}

export async function lostFrom(folder: string, digests: readonly Digest[]): Promise<readonly Digest[]> {
  const names = new Set(digests.length === 0 ? [] : await namesIn(folder));
  return digests.filter((digest) => !names.has(hexOf(digest)));
}

/** Sizes in bytes. */
export async function listFolder(folder: string): Promise<Map<Digest, number>> {
  const found = new Map<Digest, number>();
  for (const name of (await namesIn(folder)).filter((one) => /^[0-9a-f]{64}$/.test(one))) {
    const stats = await stat(join(folder, name));
    if (stats.isFile()) found.set(digestFromHex(name), stats.size);
  }
  return found;
}

export async function hashOf(handle: FileHandle, signal: AbortSignal): Promise<Partial> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (let at = 0; ; ) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, at);
    if (bytesRead === 0) return { hash, lengthBytes: at, ownFromByte: at };
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}

export async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Thrown by {@link readChecked} before the last bytes of a wrong digest. */
export const CHANGED = new Error('its bytes have changed; it was removed');

export interface CheckedRead {
  readonly path: string;
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly startByte: number;
}

/**
 * A read from the first byte on is checked, so that nobody gets a changed file whole: a caller ends
 * with the last byte. @throws {@link CHANGED}
 */
export async function* readChecked(
  { path, digest, sizeBytes, startByte }: CheckedRead,
  signal: AbortSignal,
  allocate: Allocate,
): AsyncGenerator<Buffer> {
  const hash = startByte === 0 ? createHash('sha256') : undefined;
  let leftBytes = sizeBytes - startByte;
  for await (const chunk of readFrom(path, startByte, sizeBytes, signal, allocate)) {
    hash?.update(chunk);
    leftBytes -= chunk.length;
    if (leftBytes === 0 && hash !== undefined && digestFromHex(hash.digest('hex')) !== digest) throw CHANGED;
    yield chunk;
  }
  if (sizeBytes === 0 && digestOf(Buffer.alloc(0)) !== digest) throw CHANGED;
}

/** Chunks of at most 1 MiB. @throws Error when the file is shorter; system errors unchanged */
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
