import type { Digest } from '../model/digest.ts';
import type { ImageFilesystem, LayerStorage, StagingPlace } from '../model/image.ts';
import { diskUse, type LayerNeed } from './disk-use.ts';

/**
 * What of a filesystem is short: room for the images (and for staging, where that is on the same
 * one), inodes for their files, or room on another filesystem where blobs are staged while they are
 * pulled.
 */
export type ShortageKind = 'bytes' | 'inodes' | 'staging';

/** One need that is not met. Bytes, or a number of inodes. */
export interface Shortage {
  readonly kind: ShortageKind;
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** Part of what is free that must stay free. */
  readonly reserved: number;
  /** How much would have to become free for it to fit. */
  readonly lacking: number;
}

/** What a preload needs against what there is, in bytes. */
export interface DiskVerdict {
  /** On the filesystem of the images, the most at any time: with what is staged there. */
  readonly neededBytes: number;
  readonly freeBytes: number;
  /** Part of the free bytes that must stay free. */
  readonly reservedBytes: number;
  readonly path: string;
  readonly fits: boolean;
  /** Why it does not fit, the most telling first; empty when it does. */
  readonly shortages: readonly Shortage[];
}

/** What {@link estimateDisk} looks at. */
export interface DiskNeed {
  /** The layers that each image still to be pulled lacks. */
  readonly images: readonly (readonly LayerNeed[])[];
  readonly filesystem: ImageFilesystem;
  readonly layerStorage: LayerStorage;
  readonly staging: StagingPlace | undefined;
  /**
   * Layers of which stickpin keeps a compressed copy of its own on the filesystem of the images;
   * default none.
   */
  readonly copied?: readonly LayerNeed[];
  /**
   * Bytes of attachments that are still to be written to the filesystem of the images; default 0.
   */
  readonly attachedBytes?: number;
  /**
   * Share that stays free of every filesystem, because kubelet starts to evict and to collect
   * images at that mark.
   */
  readonly minFreePercent: number;
  /** How many of the images may be pulled at once, and so be staged together. */
  readonly parallel: number;
}

/**
 * Whether the images fit, each layer counted once: what the runtime stores ({@link diskUse}),
 * copies that stickpin keeps, and blobs that the runtime stages until an image is stored
 * (docs/runtime-facts.md, fact 18). Staged are the largest images that may be pulled in parallel.
 * docs/decisions/disk-space.md says why they count in full.
 */
export function estimateDisk(need: DiskNeed): DiskVerdict {
  const { images, filesystem, layerStorage, staging, copied = [], attachedBytes = 0, minFreePercent } = need;
  const layers = new Map(images.flat().map((layer) => [layer.digest, layer]));
  const copies = [...new Map(copied.map((layer) => [layer.digest, layer])).values()];
  // An image that lacks no layer takes a few KiB, and is no reason to wait: a pin that is repaired
  // must not depend on space.
  const used = diskUse(layers.values(), layers.size === 0 ? 0 : images.length, layerStorage);
  const staged = staging === 'with-images' ? stagedBytes(need) : 0;
  const attached = layers.size === 0 ? 0 : attachedBytes;
  const neededBytes = used.bytes + staged + attached + copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const neededInodes = used.inodes + copies.length;
  const reserve = (total: number) => Math.ceil((total * minFreePercent) / 100);
  const { path, freeBytes, totalBytes, inodes } = filesystem;
  const shortages = [
    shortage('bytes', path, neededBytes, freeBytes, reserve(totalBytes)),
    inodes && shortage('inodes', path, neededInodes, inodes.free, reserve(inodes.total)),
    typeof staging === 'object' &&
      shortage('staging', staging.path, stagedBytes(need), staging.freeBytes, reserve(staging.totalBytes)),
  ].filter((one) => typeof one === 'object');
  return {
    neededBytes,
    freeBytes,
    reservedBytes: Math.min(reserve(totalBytes), freeBytes),
    path,
    fits: shortages.length === 0,
    shortages,
  };
}

function shortage(
  kind: ShortageKind,
  path: string,
  needed: number,
  free: number,
  reserve: number,
): Shortage | undefined {
  if (needed === 0 || needed <= free - reserve) return undefined;
  return { kind, path, needed, free, reserved: Math.min(reserve, free), lacking: needed - (free - reserve) };
}

/**
 * The most that is staged at once: the largest images, as many as are pulled together, which share
 * no missing layer then.
 */
export function stagedBytes({ images, parallel }: Pick<DiskNeed, 'images' | 'parallel'>): number {
  const staged = new Set<Digest>();
  let sum = 0;
  for (let slot = 0; slot < Math.min(parallel, images.length); slot += 1) {
    const [largest] = images
      .map((layers) => layers.filter(({ digest }) => !staged.has(digest)))
      .map((layers) => ({ layers, sizeBytes: layers.reduce((bytes, layer) => bytes + layer.sizeBytes, 0) }))
      .sort((a, b) => b.sizeBytes - a.sizeBytes);
    sum += largest?.sizeBytes ?? 0;
    for (const { digest } of largest?.layers ?? []) staged.add(digest);
  }
  return sum;
}
