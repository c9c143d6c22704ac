import { stat } from 'node:fs/promises';
import type { Digest } from '../../../domain/model/digest.ts';
import { untilAborted } from '../../../platform/async/abort.ts';
import { type Allocate, newBuffer } from '../../../platform/files/file-access.ts';
import type { Log } from '../../../platform/log.ts';
import type { LayerStore, LayerWriter } from '../../../ports/blobs.ts';
import { absentBlob } from '../write-error.ts';
import { CHANGED, deviceOf, hasDigest, layerPath, listPartials, readChecked } from './layer-files.ts';
import {
  finishLayer,
  forgetLayer,
  hasRoomFor,
  heldLayers,
  type LayerFolder,
  logFull,
  resumeLayer,
  storeError,
} from './layer-folder.ts';
import { createLayerWriter } from './layer-writer.ts';

export interface LayerStoreDeps {
  readonly folder: string;
  /** That must stay free for the node, in percent of the filesystem. */
  readonly minFreePercent: number;
  readonly log: Log;
}

/**
 * Layers on the node's own disk: `<folder>/<hex>`, and `<hex>.part` while one is being written. A
 * layer gets its final name when its digest is right and its bytes are on the disk. Each complete
 * read checks the digest again.
 *
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
      // A caller that aborts and resumes at once may get here before the file is closed.
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
  /** Undefined: from where it was left. */
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
      // Either the file is complete and was not renamed yet, or there is a gap and the layer is
      // copied later.
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

/** Removes all other layers. Returns the number of complete ones. */
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
