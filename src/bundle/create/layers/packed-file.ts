import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { type SourceFile, sourceError } from '../images/layout-source.ts';
import { isZstd, unzstd } from './unzstd.ts';

const CHUNK_BYTES = 1024 * 1024;
/** Buffers of 1 MiB for thousands of tiny layers would keep the garbage collector busy. */
const LEAST_CHUNK_BYTES = 16 * 1024;
/** How much a layer grows when it is unpacked, for the size of a buffer only. */
const UNPACKED_FACTOR = 4;

/** Receives the content of a packed file while it is read. */
interface PackedSink {
  /** The expected size of the file; buffers of a small one are small. Default: a large one. */
  readonly sizeBytes?: number;
  /** The first bytes of the file; empty when it is empty. */
  readonly onHead?: (head: Buffer) => void;
  /** The bytes as they are in the file; the next ones come when the promise is fulfilled. */
  readonly onFile?: (chunk: Buffer) => Promise<void>;
  /** The bytes of the tar inside; the next ones come when the promise is fulfilled. */
  readonly onTar: (chunk: Buffer) => void | Promise<void>;
}

/**
 * Reads a file once, from its beginning to its end, and unpacks it: gzip, zstd and plain tar, told
 * apart by their first bytes as runtimes do, since media types are often wrong about compression.
 *
 * @throws AppError `bundle/source` (`reject`) when it can't be read or unpacked; `bundle/tar` of
 *   the sink as `bundle/source`; other errors of the sink unchanged.
 */
export async function streamPacked(file: SourceFile, sink: PackedSink, signal: AbortSignal): Promise<void> {
  const { sizeBytes, onHead, onFile, onTar } = sink;
  const stream = createReadStream(file.path, { highWaterMark: bufferBytes(sizeBytes), signal });
  const chunks = readFrom(stream, file, onFile);
  const chunkSize = bufferBytes(sizeBytes, UNPACKED_FACTOR);
  try {
    const first = await chunks.next();
    const head = first.done ? Buffer.alloc(0) : first.value;
    onHead?.(head);
    const all = (async function* () {
      yield head;
      yield* chunks;
    })();
    const take = async (parts: AsyncIterable<Buffer>) => {
      for await (const part of parts) {
        signal.throwIfAborted();
        await onTar(part);
      }
    };
    if (head[0] === 0x1f && head[1] === 0x8b) await pipeline(all, createGunzip({ chunkSize }), take, { signal });
    else await take(isZstd(head) ? unzstd(all, chunkSize) : all);
  } catch (error) {
    signal.throwIfAborted();
    throw packedError(file, error);
  } finally {
    stream.destroy();
  }
}

/** `bundle/source` (`reject`) for a file that is damaged or of another kind. */
export function damagedFile({ what }: SourceFile, why: string, cause?: unknown): AppError {
  return bundleError('bundle/source', `${what} is damaged: ${why}`, { cause });
}

function bufferBytes(sizeBytes: number = CHUNK_BYTES, factor = 1): number {
  return Math.min(CHUNK_BYTES, Math.max(LEAST_CHUNK_BYTES, sizeBytes * factor));
}

async function* readFrom(
  stream: AsyncIterable<Buffer>,
  { what }: SourceFile,
  onFile: PackedSink['onFile'],
): AsyncGenerator<Buffer, undefined> {
  const chunks = stream[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((cause: unknown) => {
      throw sourceError(what, cause);
    });
    if (next.done) return undefined;
    await onFile?.(next.value);
    yield next.value;
  }
}

function packedError(file: SourceFile, error: unknown): unknown {
  if (error instanceof AppError) return error.code === 'bundle/tar' ? damagedFile(file, error.message, error) : error;
  const code = systemCodeOf(error);
  const packing = code?.startsWith('Z_') ? 'gzip' : code?.startsWith('ZSTD_') ? 'zstd' : undefined;
  if (packing === undefined && !(error instanceof RangeError)) return error;
  return damagedFile(file, `its ${packing ?? 'zstd'} can't be unpacked: ${reasonOf(error)}`, error);
}
