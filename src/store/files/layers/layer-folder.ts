import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, statfs } from 'node:fs/promises';
import type { Digest } from '../../../domain/model/digest.ts';
import { type AppError, reasonOf } from '../../../platform/app-error.ts';
import { syncFolder } from '../../../platform/files/durable-file.ts';
import type { Log } from '../../../platform/log.ts';
import { fileWriteError } from '../write-error.ts';
import { hashOf, layerPath, listFolder, type Partial, partialPath } from './layer-files.ts';

export interface LayerFolder {
  readonly folder: string;
  /** That must stay free, in percent of the filesystem. */
  readonly minFreePercent: number;
  readonly log: Log;
  readonly partials: Map<Digest, Partial>;
  /** Layers that are being written. The value is a promise while the file is being closed. */
  readonly writing: Map<Digest, Promise<void> | undefined>;
  readonly listeners: Set<() => void>;
  /** Sizes in bytes of complete layers. Undefined until the folder is listed. */
  listed: Promise<Map<Digest, number>> | undefined;
  isFull: boolean;
}

export interface OpenedLayer {
  readonly handle: FileHandle;
  readonly partial: Partial;
}

/** Lists the folder once. @throws AppError `store/blob` (`retry`) */
export function heldLayers(layers: LayerFolder): Promise<Map<Digest, number>> {
  layers.listed ??= listFolder(layers.folder).catch((error: unknown) => {
    layers.listed = undefined;
    throw storeError(layers.folder, 'listed', error);
  });
  return layers.listed;
}

export async function forgetLayer(layers: LayerFolder, digest: Digest): Promise<void> {
  (await heldLayers(layers)).delete(digest);
  layers.partials.delete(digest);
  for (const path of [layerPath(layers.folder, digest), partialPath(layers.folder, digest)]) {
    await rm(path, { force: true });
  }
}

/** Removes a layer whose digest is wrong. */
export async function finishLayer(
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

export async function resumeLayer(
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

/** Logs that layers are not kept, once until there is space again. */
export function logFull(layers: LayerFolder, error: unknown): void {
  if (!layers.isFull) {
    layers.log.warn({ err: error }, `Layers are not kept on this node for now: ${reasonOf(error)}`);
  }
  layers.isFull = true;
}

/** Whether `sizeBytes` more fit beside the share that must stay free. Logs when they don't. */
export async function hasRoomFor(layers: LayerFolder, sizeBytes: number): Promise<boolean> {
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
export function storeError(path: string, how: string, error: unknown): AppError {
  return fileWriteError(path, error, 'store/blob', `${path} can't be ${how}: ${reasonOf(error)}`);
}
