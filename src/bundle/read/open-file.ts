import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { join } from 'node:path';
import { type Digest, digestFromHex } from '../../domain/model/digest.ts';
import type { FaultyBlob } from '../../domain/model/medium.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { type Allocate, newBuffer } from '../../platform/files/file-access.ts';
import type { HeldFolder } from '../../platform/files/held-folder.ts';
import { quotedPath } from '../../platform/plain-text.ts';
import { bundleError } from '../bundle-error.ts';
import type { BundleReader } from './bundle-reader.ts';

const CHUNK_BYTES = 1024 * 1024;

/** The device of a path is gone. */
const GONE = new Set(['ENODEV', 'ENXIO', 'ENOTCONN', 'ESTALE', 'ENOMEDIUM', 'ESHUTDOWN']);

/** `sizeBytes` is that at opening. */
export interface OpenedFile {
  readonly handle: FileHandle;
  readonly sizeBytes: number;
}

/**
 * Follows no link and waits for no pipe. Links in its parent folders are followed: use {@link
 * openRegularFileIn} on media. Returns undefined when there is no such file.
 * @throws AppError `bundle/link` for a link, a directory or a device; errors of {@link mediaError}
 */
export async function openRegularFile(path: string): Promise<OpenedFile | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return openChecked(
    path,
    () => lstat(path),
    () => open(path, flags),
  );
}

export async function openRegularFileIn(folder: HeldFolder, name: string): Promise<OpenedFile | undefined> {
  return openChecked(
    join(folder.path, name),
    () => folder.stat(name),
    () => folder.openFile(name),
  );
}

async function openChecked(
  path: string,
  look: () => Promise<Stats>,
  openFile: () => Promise<FileHandle>,
): Promise<OpenedFile | undefined> {
  try {
    // The check keeps devices and pipes closed; O_NOFOLLOW covers a change in between.
    if (!(await look()).isFile()) throw notRegular(path);
    const handle = await openFile();
    try {
      const found = await handle.stat();
      if (!found.isFile()) throw notRegular(path);
      return { handle, sizeBytes: found.size };
    } catch (error) {
      await handle.close();
      throw error;
    }
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    if (code === 'ELOOP') throw notRegular(path);
    throw mediaError(path, error);
  }
}

/** @throws AppError as {@link openRegularFile} and {@link streamOpened} */
export function streamFile(
  path: string,
  startByte: number,
  signal: AbortSignal,
  endByte?: number,
  allocate?: Allocate,
): AsyncGenerator<Buffer, void, undefined> {
  return streamOpened(path, () => openRegularFile(path), startByte, signal, endByte, allocate);
}

/**
 * Yields chunks of at most 1 MiB from `allocate` (default: a new buffer each). The file is closed
 * at the end, when the consumer stops, and at once when `signal` aborts.
 * @throws AppError errors of {@link openRegularFile}; `media/gone` (`wait`) when there is no such
 * file; `media/read` (`retry`) when a read fails or the file ends early; the signal's reason
 */
export async function* streamOpened(
  path: string,
  opening: () => Promise<OpenedFile | undefined>,
  startByte: number,
  signal: AbortSignal,
  endByte?: number,
  allocate: Allocate = newBuffer,
): AsyncGenerator<Buffer, void, undefined> {
  signal.throwIfAborted();
  const opened = await opening();
  if (opened === undefined) throw gone(path);
  const { handle, sizeBytes } = opened;
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= handle.close().catch(() => undefined);
  };
  signal.addEventListener('abort', close, { once: true });
  try {
    const end = endByte ?? sizeBytes;
    for (let at = startByte; at < end; ) {
      signal.throwIfAborted();
      const chunk = await readChunk(handle, path, at, allocate(Math.min(CHUNK_BYTES, end - at)), signal);
      at += chunk.length;
      yield chunk;
    }
  } finally {
    signal.removeEventListener('abort', close);
    close();
    await closing;
  }
}

async function readChunk(
  handle: FileHandle,
  path: string,
  at: number,
  into: Buffer,
  signal: AbortSignal,
): Promise<Buffer> {
  let filled: { bytesRead: number; buffer: Buffer };
  try {
    filled = await handle.read(into, 0, into.length, at);
  } catch (error) {
    signal.throwIfAborted();
    throw mediaError(path, error);
  }
  signal.throwIfAborted();
  if (filled.bytesRead > 0) return filled.buffer.subarray(0, filled.bytesRead);
  const why = `${quotedPath(path)} ended at byte ${at}, before its end: it is being changed or the medium is bad`;
  throw bundleError('media/read', why);
}

/** `media/gone` (`wait`) or `media/read` (`retry`) for a system error. An AppError stays. */
export function mediaError(path: string, error: unknown): unknown {
  const code = systemCodeOf(error);
  // Codes of stickpin have a slash, system codes never do.
  if (code === undefined || code.includes('/')) return error;
  if (GONE.has(code)) return gone(path, error);
  const shown = quotedPath(path);
  if (code === 'EACCES' || code === 'EPERM') {
    const message = `${shown} can't be read by this user (${code}): try again as root`;
    return bundleError('media/read', message, { cause: error });
  }
  if (isDamage(error)) {
    const message = `${shown} can't be read: the filesystem of the medium is damaged. Check it on another computer, or make the medium again`;
    return bundleError('media/read', message, { cause: error });
  }
  const message = `${shown} can't be read (${reasonOf(error)}): plug the medium in again, and replace it if this happens again`;
  return bundleError('media/read', message, { cause: error });
}

/** `EBADMSG` and `EUCLEAN`: a filesystem reports damage. Node has no names for them. */
function isDamage(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && (error.errno === -74 || error.errno === -117);
}

export function gone(path: string, cause?: unknown) {
  const message = `${quotedPath(path)} is not there any more: plug the medium in again to continue`;
  return bundleError('media/gone', message, { cause });
}

function notRegular(path: string) {
  return bundleError(
    'bundle/link',
    `${quotedPath(path)} is not a regular file; links are not followed: copy the bundle itself`,
  );
}

type BlobResult =
  | { readonly kind: 'read'; readonly bytes: Buffer }
  | { readonly kind: 'missing'; readonly missing: FaultyBlob };

/** Size in bytes. */
export interface ExpectedBlob {
  readonly digest: Digest;
  readonly sizeBytes: number;
}

/**
 * The caller checks the size against its limit; never more is read, even of a file that grows.
 *
 * @throws AppError `media/gone` (`wait`); an unreadable blob counts as `damaged`
 */
export async function readBlob(reader: BundleReader, expected: ExpectedBlob, signal: AbortSignal): Promise<BlobResult> {
  const { digest, sizeBytes } = expected;
  const misfit = await sizeMisfit(reader, expected, signal);
  if (misfit !== undefined) return { kind: 'missing', missing: misfit };
  const chunks: Buffer[] = [];
  const hash = createHash('sha256');
  let readBytes = 0;
  try {
    for await (const chunk of reader.read(digest, 0, signal)) {
      readBytes += chunk.length;
      if (readBytes > sizeBytes) break;
      chunks.push(chunk);
      hash.update(chunk);
    }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'media/read') throw error;
    return { kind: 'missing', missing: { digest, why: 'damaged' } };
  }
  if (digestFromHex(hash.digest('hex')) === digest) return { kind: 'read', bytes: Buffer.concat(chunks) };
  return { kind: 'missing', missing: { digest, why: 'damaged' } };
}

/** Returns undefined when the size is right. @throws AppError `media/read`, `media/gone` */
export async function sizeMisfit(
  reader: Pick<BundleReader, 'sizeOf'>,
  expected: ExpectedBlob,
  signal: AbortSignal,
): Promise<FaultyBlob | undefined> {
  const found = await reader.sizeOf(expected.digest, signal);
  if (found === undefined) return { digest: expected.digest, why: 'absent' };
  return found === expected.sizeBytes ? undefined : { digest: expected.digest, why: 'truncated' };
}
