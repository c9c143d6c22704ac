import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { Decompress as ZstdDecompress } from 'fzstd';
import type { Layer } from '../../domain/bundle.ts';
import { digestFromHex } from '../../domain/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';
import type { Descriptor } from '../oci-schema.ts';
import { sourceError } from './layout-source.ts';
import { createTarMeter } from './tar-meter.ts';

const CHUNK_BYTES = 1024 * 1024;

/**
 * Copies a layer blob from file to file and measures it on the way, in one pass: digest and size of the blob, `diffId`, size and content of
 * the tar inside. Gzip, zstd and plain tar; the copy is synced to disk.
 *
 * @throws AppError `bundle/source` (`reject`) when the layer is absent, damaged, no tar or compressed otherwise; system errors of the target
 *   (`ENOSPC`, …) as they are.
 */
export async function copyLayer(from: string, to: string, expected: Descriptor, signal: AbortSignal): Promise<Layer> {
  const target = await open(to, 'wx', 0o644);
  try {
    const copied = await measureLayer(from, expected, (chunk) => target.writeFile(chunk), signal);
    await target.sync();
    return copied;
  } finally {
    await target.close();
  }
}

/**
 * As {@link copyLayer} for a blob on the same filesystem that nobody else needs: it is measured, synced and moved.
 *
 * @throws AppError as {@link copyLayer}
 */
export async function moveLayer(from: string, to: string, expected: Descriptor, signal: AbortSignal): Promise<Layer> {
  const measured = await measureLayer(from, expected, async () => undefined, signal);
  const file = await open(from, 'r');
  try {
    await file.chmod(0o644);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(from, to);
  return measured;
}

async function measureLayer(
  from: string,
  expected: Descriptor,
  onChunk: (chunk: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Layer> {
  const blobHash = createHash('sha256');
  const diffHash = createHash('sha256');
  const meter = createTarMeter();
  let sizeBytes = 0;
  let uncompressedBytes = 0;
  const blob = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      blobHash.update(chunk);
      sizeBytes += chunk.length;
      await onChunk(chunk);
      yield chunk;
    }
  };
  const onTar = (chunk: Uint8Array) => {
    diffHash.update(chunk);
    uncompressedBytes += chunk.length;
    meter.write(chunk);
  };
  const tar = async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) onTar(chunk);
  };
  try {
    const { compression, chunks } = await detectCompression(from, signal);
    const passed = blob(chunks);
    if (compression === 'gzip') await pipeline(passed, createGunzip({ chunkSize: CHUNK_BYTES }), tar, { signal });
    else if (compression === 'zstd') await decompressZstd(passed, onTar, from);
    else await tar(passed);
    const digest = digestFromHex(blobHash.digest('hex'));
    if (digest !== expected.digest || sizeBytes !== expected.size) {
      throw damaged(
        from,
        `its digest is ${digest}, ${sizeBytes} bytes; ${expected.digest} with ${expected.size} was expected`,
      );
    }
    return { digest, sizeBytes, diffId: digestFromHex(diffHash.digest('hex')), uncompressedBytes, ...meter.end() };
  } catch (error) {
    signal.throwIfAborted();
    throw layerError(from, error);
  }
}

/** Looks at the first bytes, as runtimes do: media types are often wrong about compression. */
async function detectCompression(from: string, signal: AbortSignal) {
  const stream = createReadStream(from, { highWaterMark: CHUNK_BYTES, signal });
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
 * Hands on what zstd frames hold as soon as it is there: a small chunk may unpack to very much, which must never be in memory at once. Node 20
 * has no zstd of its own.
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
      throw error instanceof AppError ? error : damaged(from, `its zstd can't be unpacked: ${reasonOf(error)}`, error);
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
  if (error instanceof AppError) return error.code === 'bundle/tar' ? damaged(from, error.message, error) : error;
  return systemCodeOf(error)?.startsWith('Z_')
    ? damaged(from, `its gzip can't be unpacked: ${reasonOf(error)}`, error)
    : error;
}

function damaged(from: string, why: string, cause?: unknown) {
  return bundleError('bundle/source', `layer ${from} is damaged: ${why}`, { cause });
}
