import type { Layer } from './bundle.ts';
import type { ImageFilesystem } from './runtime-image.ts';

/** What a preload needs against what there is, in bytes. */
export interface DiskVerdict {
  readonly neededBytes: number;
  readonly freeBytes: number;
  /** Part of the free bytes that must stay free. */
  readonly reservedBytes: number;
  readonly path: string;
  readonly fits: boolean;
}

/**
 * Whether the layers still missing fit. Needed is what their files take on disk once unpacked, in blocks of 4 KiB as the signed contents say;
 * the reserve is `minFreePercent` of the filesystem, because kubelet starts to evict and to collect images at that mark.
 */
export function estimateDisk(
  missing: Iterable<Pick<Layer, 'diskBytes'>>,
  filesystem: ImageFilesystem,
  minFreePercent: number,
): DiskVerdict {
  let neededBytes = 0;
  for (const layer of missing) neededBytes += layer.diskBytes;
  const reservedBytes = Math.ceil((filesystem.totalBytes * minFreePercent) / 100);
  return {
    neededBytes,
    freeBytes: filesystem.freeBytes,
    reservedBytes: Math.min(reservedBytes, filesystem.freeBytes),
    path: filesystem.path,
    fits: neededBytes === 0 || neededBytes <= filesystem.freeBytes - reservedBytes,
  };
}
