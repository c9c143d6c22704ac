import type { Digest } from '../../domain/model/digest.ts';
import { type Allocate, newBuffer } from '../../platform/files/chunk-buffer.ts';
import type { LayerWriter } from '../../ports/blobs.ts';
import { hasDigest, partialPath, readFrom, writeAll } from './layer-files.ts';
import { finishLayer, forgetLayer, type LayerFolder, type OpenedLayer, storeError, tellFull } from './layer-folder.ts';

/** A layer that is being written. */
interface Writing {
  readonly layers: LayerFolder;
  readonly digest: Digest;
  readonly sizeBytes: number;
  /** The byte from which bytes are wanted. */
  readonly fromByte: number;
  readonly startByte: number;
  readonly opened: OpenedLayer;
  /** The byte that comes next. */
  position: number;
  isDamaged: boolean;
  /** Resolves when the file is closed; undefined while it is written to. */
  ended: Promise<void> | undefined;
}

/**
 * Writes a layer from `fromByte` on. What is there already is read back by `replay`, but for what
 * an earlier run has left.
 */
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
    write: async (chunk) => {
      if (writing.ended !== undefined) return;
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
  // Before anything is waited for: whoever sends the last bytes on knows by then what they are.
  // What can't be written is given up, hash and all.
  partial.hash.update(fresh);
  if (isWhole) writing.isDamaged = !hasDigest(partial, digest);
  await writeAll(handle, fresh, partial.lengthBytes);
  partial.lengthBytes += fresh.length;
  if (!isWhole) return;
  await finishLayer(layers, digest, !writing.isDamaged, opened);
  await end(writing);
}

/** What was half written can't be continued: its end is not what was hashed. */
async function giveUp(writing: Writing, error: unknown): Promise<void> {
  const { layers, digest } = writing;
  tellFull(layers, error);
  await end(writing);
  await forgetLayer(layers, digest).catch(() => undefined);
}

/** Closes the file, once. */
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
