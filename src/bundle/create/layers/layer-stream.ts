import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { Decompress as ZstdDecompress } from 'fzstd';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { sourceError } from '../images/layout-source.ts';

const CHUNK_BYTES = 1024 * 1024;
/** Buffers of 1 MiB for thousands of tiny layers would keep the garbage collector busy. */
const LEAST_CHUNK_BYTES = 16 * 1024;
/** How much a layer grows when it is unpacked, for the size of a buffer only. */
const UNPACKED_FACTOR = 4;

/** Receives the content of a layer while it is read. */
interface LayerSink {
  /** The expected size of the blob; buffers of a small one are small. Default: a large one. */
  readonly sizeBytes?: number;
  /**
   * The bytes of the blob as they are in the file; the next ones come when the promise is
   * fulfilled.
   */
  readonly onBlob?: (chunk: Buffer) => Promise<void>;
  /** The bytes of the tar inside. */
  readonly onTar: (chunk: Uint8Array) => void;
}

/**
 * Reads a layer blob once, from its beginning to its end, and unpacks it: gzip, zstd and plain tar,
 * told apart by their first bytes.
 *
 * @throws AppError `bundle/source` (`reject`) when it is absent or can't be unpacked; `bundle/tar`
 *   of the sink as `bundle/source`; other errors of the sink unchanged.
 */
export async function streamLayer(from: string, sink: LayerSink, signal: AbortSignal): Promise<void> {
  const blob = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      await sink.onBlob?.(chunk);
      yield chunk;
    }
  };
  const tar = async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) sink.onTar(chunk);
  };
  try {
    const { compression, chunks } = await detectCompression(from, bufferBytes(sink.sizeBytes), signal);
    const passed = blob(chunks);
    if (compression === 'gzip')
      await pipeline(passed, createGunzip({ chunkSize: bufferBytes(sink.sizeBytes, UNPACKED_FACTOR) }), tar, {
        signal,
      });
    else if (compression === 'zstd') await decompressZstd(passed, sink.onTar, from);
    else await tar(passed);
  } catch (error) {
    signal.throwIfAborted();
    throw layerError(from, error);
  }
}

function bufferBytes(sizeBytes: number = CHUNK_BYTES, factor = 1): number {
  return Math.min(CHUNK_BYTES, Math.max(LEAST_CHUNK_BYTES, sizeBytes * factor));
}

/** `bundle/source` (`reject`) for a layer that is damaged or of another kind. */
export function damagedLayer(from: string, why: string, cause?: unknown) {
  return bundleError('bundle/source', `layer ${from} is damaged: ${why}`, { cause });
}

/** Looks at the first bytes, as runtimes do: media types are often wrong about compression. */
async function detectCompression(from: string, highWaterMark: number, signal: AbortSignal) {
  const stream = createReadStream(from, { highWaterMark, signal });
  const iterator = readFrom(stream, from);
  const first = await iterator.next();
  const head = first.done ? Buffer.alloc(0) : first.value;
  const chunks = (async function* () {
    try {
      if (!first.done) yield first.value;
      yield* iterator;
    } finally {
      stream.destroy();
    }
  })();
  if (head[0] === 0x1f && head[1] === 0x8b) return { compression: 'gzip' as const, chunks };
  if (head.subarray(0, 4).equals(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]))) {
    return { compression: 'zstd' as const, chunks };
  }
  return { compression: 'none' as const, chunks };
}

/**
 * Passes unpacked zstd data on in small parts: a small chunk may unpack to very much, which must
 * never be in memory at once.
 */
async function decompressZstd(
  chunks: AsyncIterable<Buffer>,
  onData: (chunk: Uint8Array) => void,
  from: string,
): Promise<void> {
  const stream = new ZstdDecompress(onData);
  const push = (chunk: Uint8Array, isLast: boolean) => {
    try {
      stream.push(chunk, isLast);
    } catch (error) {
      throw error instanceof AppError
        ? error
        : damagedLayer(from, `its zstd can't be unpacked: ${reasonOf(error)}`, error);
    }
  };
  for await (const chunk of chunks) push(chunk, false);
  push(new Uint8Array(), true);
}

async function* readFrom(stream: AsyncIterable<Buffer>, path: string): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw sourceError(path, error);
  }
}

function layerError(from: string, error: unknown): unknown {
  if (error instanceof AppError) return error.code === 'bundle/tar' ? damagedLayer(from, error.message, error) : error;
  return systemCodeOf(error)?.startsWith('Z_')
    ? damagedLayer(from, `its gzip can't be unpacked: ${reasonOf(error)}`, error)
    : error;
}
