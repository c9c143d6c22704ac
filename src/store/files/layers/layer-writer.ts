import type { Digest } from '../../../domain/model/digest.ts';
import { type Allocate, newBuffer } from '../../../platform/files/file-access.ts';
import type { LayerWriter } from '../../../ports/blobs.ts';
import { hasDigest, partialPath, readFrom, writeAll } from './layer-files.ts';
import { finishLayer, forgetLayer, type LayerFolder, logFull, type OpenedLayer, storeError } from './layer-folder.ts';

interface Writing {
  readonly layers: LayerFolder;
  readonly digest: Digest;
  readonly sizeBytes: number;
  /** The first byte that the caller needs. */
  readonly fromByte: number;
  readonly startByte: number;
  readonly opened: OpenedLayer;
  position: number;
  isDamaged: boolean;
  /** Resolves when the file is closed. Undefined while it is open. */
  ended: Promise<void> | undefined;
}

/** `replay` reads the bytes that this process has written, not those of an earlier process. */
export function createLayerWriter(
  layers: LayerFolder,
  { digest, sizeBytes, fromByte }: Pick<Writing, 'digest' | 'sizeBytes' | 'fromByte'>,
  opened: OpenedLayer,
): LayerWriter {
  const { lengthBytes, ownFromByte } = opened.partial;
  const startByte = fromByte < ownFromByte ? fromByte : lengthBytes;
  const writing: Writing = {
    ...{ layers, digest, sizeBytes, fromByte, startByte, opened },
    position: startByte,
    isDamaged: false,
    ended: undefined,
  };
  return {
    startByte,
    isDamaged: () => writing.isDamaged,
    replay: (signal, allocate = newBuffer) => replay(writing, signal, allocate),
    write: async (chunk, signal) => {
      if (writing.ended !== undefined) return;
      if (signal.aborted) return end(writing);
      try {
        await take(writing, chunk);
      } catch (error) {
        await giveUp(writing, error);
      }
    },
    close: () => end(writing),
  };
}

async function* replay(writing: Writing, signal: AbortSignal, allocate: Allocate): AsyncGenerator<Buffer> {
  const { layers, digest, fromByte, startByte } = writing;
  const path = partialPath(layers.folder, digest);
  try {
    yield* readFrom(path, fromByte, startByte, signal, allocate);
  } catch (error) {
    signal.throwIfAborted();
    await giveUp(writing, error);
    throw storeError(path, 'read', error);
  }
}

async function take(writing: Writing, chunk: Buffer): Promise<void> {
  const { layers, digest, sizeBytes, opened } = writing;
  const { partial, handle } = opened;
  const skip = partial.lengthBytes - writing.position;
  writing.position += chunk.length;
  if (skip >= chunk.length) return;
  const fresh = chunk.subarray(skip);
  const isWhole = partial.lengthBytes + fresh.length >= sizeBytes;
  // Before the first await, so that the caller knows the result before it forwards the last bytes.
  // If the write fails, the hash is dropped with the file.
  partial.hash.update(fresh);
  if (isWhole) writing.isDamaged = !hasDigest(partial, digest);
  await writeAll(handle, fresh, partial.lengthBytes);
  partial.lengthBytes += fresh.length;
  if (!isWhole) return;
  await finishLayer(layers, digest, !writing.isDamaged, opened);
  await end(writing);
}

/**
 * After a partial write the layer can't be resumed: the end of the file does not match the hash.
 */
async function giveUp(writing: Writing, error: unknown): Promise<void> {
  const { layers, digest } = writing;
  logFull(layers, error);
  await end(writing);
  await forgetLayer(layers, digest).catch(() => undefined);
}

function end(writing: Writing): Promise<void> {
  if (writing.ended === undefined) {
    const { layers, digest, opened } = writing;
    writing.ended = opened.handle
      .close()
      .catch(() => undefined)
      .finally(() => layers.writing.delete(digest));
    layers.writing.set(digest, writing.ended);
  }
  return writing.ended;
}
