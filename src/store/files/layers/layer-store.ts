import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat, statfs } from 'node:fs/promises';
import type { Digest } from '../../../domain/model/digest.ts';
import { type AppError, reasonOf } from '../../../platform/app-error.ts';
import { untilAborted } from '../../../platform/async/abort.ts';
import { syncFolder } from '../../../platform/files/durable-file.ts';
import { type Allocate, newBuffer } from '../../../platform/files/file-access.ts';
import type { Log } from '../../../platform/log.ts';
import type { LayerStore, LayerWriter } from '../../../ports/blobs.ts';
import { absentBlob, fileWriteError } from '../write-error.ts';
import {
  CHANGED,
  deviceOf,
  hasDigest,
  hashOf,
  layerPath,
  listFolder,
  listPartials,
  type Partial,
  partialPath,
  readChecked,
  readFrom,
  writeAll,
} from './layer-files.ts';

interface LayerStoreDeps {
  readonly folder: string;
  /** Must stay free for the node, in percent of the filesystem. */
  readonly minFreePercent: number;
  readonly log: Log;
}

/**
 * Layers on the node's own disk: `<folder>/<hex>`, and `<hex>.part` while one is being written. A
 * layer gets its final name when its digest is right and its bytes are on the disk. Each complete
 * read checks the digest again.
 * INVARIANT: one writer for each layer. An error ends the writer but never its caller.
 */
export function createLayerStore({ folder, minFreePercent, log }: LayerStoreDeps): LayerStore {
  const layers: LayerFolder = {
    ...{ folder, minFreePercent, log },
    partials: new Map(),
    writing: new Map(),
    listeners: new Set(),
    listed: undefined,
    isFull: false,
  };
  let wanted: ReadonlySet<Digest> = new Set();
  return {
    list: async (signal) => new Set((await untilAborted(heldLayers(layers), signal)).keys()),
    sizeOf: async (digest, signal) => (await untilAborted(heldLayers(layers), signal)).get(digest),
    isBeside: (path, signal) => untilAborted(isBeside(folder, path), signal),
    want: (digests) => {
      wanted = digests;
    },
    onChange: (listener) => {
      layers.listeners.add(listener);
      return () => {
        layers.listeners.delete(listener);
      };
    },
    begin: async (digest, sizeBytes, startByte, signal) => {
      // A caller that aborts and resumes at once may come before the file is closed.
      await untilAborted(Promise.resolve(layers.writing.get(digest)), signal);
      if (!wanted.has(digest) || layers.writing.has(digest)) return undefined;
      return begin(layers, { digest, sizeBytes, startByte }, signal);
    },
    read: (digest, startByte, signal, allocate = newBuffer) => read(layers, digest, startByte, signal, allocate),
    retain: (digests, signal) => retain(layers, digests, signal),
  };
}

async function isBeside(folder: string, path: string): Promise<boolean> {
  try {
    const [own, other] = await Promise.all([deviceOf(folder), stat(path)]);
    return own === other.dev;
  } catch {
    return false; // the path of a runtime may be invisible to this process
  }
}

interface WantedBytes {
  readonly digest: Digest;
  readonly sizeBytes: number;
  /** Undefined: from the end of the file. */
  readonly startByte: number | undefined;
}

async function begin(
  layers: LayerFolder,
  { digest, sizeBytes, startByte }: WantedBytes,
  signal: AbortSignal,
): Promise<LayerWriter | undefined> {
  const { partials, writing } = layers;
  writing.set(digest, undefined);
  try {
    const isHeld = (await heldLayers(layers)).has(digest);
    if (!isHeld && (await hasRoomFor(layers, sizeBytes - (partials.get(digest)?.lengthBytes ?? 0)))) {
      const opened = await resumeLayer(layers, digest, signal);
      const { lengthBytes } = opened.partial;
      const fromByte = startByte ?? lengthBytes;
      if (lengthBytes < sizeBytes && lengthBytes >= fromByte) {
        return createLayerWriter(layers, { digest, sizeBytes, fromByte }, opened);
      }
      // The file is complete and was not renamed, or there is a gap and the layer is copied later.
      if (lengthBytes >= sizeBytes) await finishLayer(layers, digest, hasDigest(opened.partial, digest), opened);
      await opened.handle.close();
    }
  } catch (error) {
    if (!signal.aborted) logFull(layers, error);
  }
  writing.delete(digest);
  signal.throwIfAborted();
  return undefined;
}

async function* read(
  layers: LayerFolder,
  digest: Digest,
  startByte: number,
  signal: AbortSignal,
  allocate: Allocate,
): AsyncGenerator<Buffer> {
  const path = layerPath(layers.folder, digest);
  const sizeBytes = (await heldLayers(layers)).get(digest);
  if (sizeBytes === undefined) throw absentBlob(path);
  try {
    yield* readChecked({ path, digest, sizeBytes, startByte }, signal, allocate);
  } catch (error) {
    signal.throwIfAborted();
    await forgetLayer(layers, digest).catch(() => undefined);
    throw storeError(path, error === CHANGED ? 'used' : 'read', error);
  }
}

/** Returns the number of complete ones that it removed. */
async function retain(layers: LayerFolder, digests: ReadonlySet<Digest>, signal: AbortSignal): Promise<number> {
  signal.throwIfAborted();
  const gone = [...(await heldLayers(layers)).keys()].filter((digest) => !digests.has(digest));
  for (const digest of gone) {
    signal.throwIfAborted();
    await forgetLayer(layers, digest);
  }
  for (const digest of await listPartials(layers.folder)) {
    signal.throwIfAborted();
    if (!digests.has(digest) && !layers.writing.has(digest)) await forgetLayer(layers, digest);
  }
  return gone.length;
}

interface LayerFolder {
  readonly folder: string;
  /** In percent of the filesystem. */
  readonly minFreePercent: number;
  readonly log: Log;
  readonly partials: Map<Digest, Partial>;
  /** The value is a promise while the file is being closed. */
  readonly writing: Map<Digest, Promise<void> | undefined>;
  readonly listeners: Set<() => void>;
  /** Sizes in bytes. Undefined until the folder is listed. */
  listed: Promise<Map<Digest, number>> | undefined;
  isFull: boolean;
}

interface OpenedLayer {
  readonly handle: FileHandle;
  readonly partial: Partial;
}

/** @throws AppError `store/blob` (`retry`) */
function heldLayers(layers: LayerFolder): Promise<Map<Digest, number>> {
  layers.listed ??= listFolder(layers.folder).catch((error: unknown) => {
    layers.listed = undefined;
    throw storeError(layers.folder, 'listed', error);
  });
  return layers.listed;
}

async function forgetLayer(layers: LayerFolder, digest: Digest): Promise<void> {
  (await heldLayers(layers)).delete(digest);
  layers.partials.delete(digest);
  for (const path of [layerPath(layers.folder, digest), partialPath(layers.folder, digest)]) {
    await rm(path, { force: true });
  }
}

async function finishLayer(
  layers: LayerFolder,
  digest: Digest,
  isRight: boolean,
  { handle, partial }: OpenedLayer,
): Promise<void> {
  const { folder, partials, listeners } = layers;
  partials.delete(digest);
  if (!isRight) {
    await rm(partialPath(folder, digest), { force: true });
    return;
  }
  await handle.sync();
  await rename(partialPath(folder, digest), layerPath(folder, digest));
  await syncFolder(folder);
  (await heldLayers(layers)).set(digest, partial.lengthBytes);
  for (const listener of [...listeners]) listener();
}

async function resumeLayer(
  { folder, partials }: LayerFolder,
  digest: Digest,
  signal: AbortSignal,
): Promise<OpenedLayer> {
  await mkdir(folder, { recursive: true });
  const handle = await open(partialPath(folder, digest), constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    const partial = partials.get(digest) ?? (await hashOf(handle, signal));
    partials.set(digest, partial);
    return { handle, partial };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Once until there is space again. */
function logFull(layers: LayerFolder, error: unknown): void {
  if (!layers.isFull) {
    layers.log.warn({ err: error }, `Layers are not kept on this node for now: ${reasonOf(error)}`);
  }
  layers.isFull = true;
}

/** Logs when there is no room. */
async function hasRoomFor(layers: LayerFolder, sizeBytes: number): Promise<boolean> {
  const { folder, minFreePercent } = layers;
  await mkdir(folder, { recursive: true });
  const { bavail, blocks, bsize } = await statfs(folder);
  const fits = bavail * bsize - sizeBytes >= (blocks * bsize * minFreePercent) / 100;
  if (fits) layers.isFull = false;
  else {
    const message = `${folder} has no room for another ${sizeBytes} bytes beside the share that stays free`;
    logFull(layers, new Error(message));
  }
  return fits;
}

/** `how`: a participle. */
function storeError(path: string, how: string, error: unknown): AppError {
  return fileWriteError(path, error, 'store/blob', `${path} can't be ${how}: ${reasonOf(error)}`);
}

interface Writing {
  readonly layers: LayerFolder;
  readonly digest: Digest;
  readonly sizeBytes: number;
  readonly fromByte: number;
  readonly startByte: number;
  readonly opened: OpenedLayer;
  position: number;
  isDamaged: boolean;
  /** Undefined while the file is open. */
  ended: Promise<void> | undefined;
}

/** `replay` reads the bytes that this process has written, not those of an earlier process. */
function createLayerWriter(
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

/** After a partial write the end of the file does not match the hash. */
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
