import type { Layer } from './bundle.ts';
import type { Digest } from './digest.ts';
import type { ImageFilesystem, LayerStorage, StagingFilesystem } from './runtime-image.ts';

/** What of a filesystem is short: room for the images, inodes for their files, or room where blobs are staged while they are pulled. */
export type ShortageKind = 'bytes' | 'inodes' | 'staging';

/** One need that is not met. Bytes, or a number of inodes. */
export interface Shortage {
  readonly kind: ShortageKind;
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** Part of what is free that must stay free. */
  readonly reserved: number;
}

/** What a preload needs against what there is, in bytes. */
export interface DiskVerdict {
  readonly neededBytes: number;
  readonly freeBytes: number;
  /** Part of the free bytes that must stay free. */
  readonly reservedBytes: number;
  readonly path: string;
  readonly fits: boolean;
  /** Why it does not fit, the most telling first; empty when it does. */
  readonly shortages: readonly Shortage[];
}

type LayerNeed = Pick<Layer, 'digest' | 'sizeBytes' | 'diskBytes' | 'inodes'>;

/** What {@link estimateDisk} looks at. */
export interface DiskNeed {
  /** The layers that each image still to be pulled lacks. */
  readonly images: readonly (readonly LayerNeed[])[];
  readonly filesystem: ImageFilesystem;
  readonly layerStorage: LayerStorage;
  readonly staging: StagingFilesystem | undefined;
  /** Layers of which stickpin keeps a compressed copy of its own on the filesystem of the images; default none. */
  readonly copied?: ReadonlySet<Digest>;
  /** Share that stays free of every filesystem, because kubelet starts to evict and to collect images at that mark. */
  readonly minFreePercent: number;
  /** Images that may be pulled at once, and so be staged together. */
  readonly parallel: number;
}

/**
 * Whether the layers still missing fit, each counted once: what their files take once unpacked, in blocks of 4 KiB as the signed contents say,
 * their compressed size where the runtime keeps that as well (fact 22), and once more where stickpin does. Where blobs are staged on another filesystem (fact 18), all layers of
 * an image lie there together until the image is stored.
 */
export function estimateDisk(need: DiskNeed): DiskVerdict {
  const { images, filesystem, layerStorage, staging, copied, minFreePercent } = need;
  const layers = new Map(images.flat().map((layer) => [layer.digest, layer]));
  let neededBytes = 0;
  let neededInodes = 0;
  for (const layer of layers.values()) {
    const isCopied = copied?.has(layer.digest) === true;
    neededBytes += bytesOf(layer, layerStorage) + (isCopied ? layer.sizeBytes : 0);
    neededInodes += (layerStorage === 'compressed' ? 1 : layer.inodes) + (isCopied ? 1 : 0);
  }
  const reserve = (total: number) => Math.ceil((total * minFreePercent) / 100);
  const { path, freeBytes, totalBytes, inodes } = filesystem;
  const shortages = [
    shortage('bytes', path, neededBytes, freeBytes, reserve(totalBytes)),
    inodes && shortage('inodes', path, neededInodes, inodes.free, reserve(inodes.total)),
    staging && shortage('staging', staging.path, stagedBytes(need), staging.freeBytes, reserve(staging.totalBytes)),
  ].filter((one) => one !== undefined);
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
  return { kind, path, needed, free, reserved: Math.min(reserve, free) };
}

function bytesOf({ diskBytes, sizeBytes }: LayerNeed, storage: LayerStorage): number {
  if (storage === 'compressed') return sizeBytes;
  return storage === 'both' ? diskBytes + sizeBytes : diskBytes;
}

/** The most that is staged at once: the largest images, as many as are pulled together, which share no missing layer then. */
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
