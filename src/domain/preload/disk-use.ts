import type { Layer } from '../model/bundle.ts';
import type { LayerStorage } from '../model/image.ts';

/** What something takes of a filesystem. */
export interface DiskUse {
  readonly bytes: number;
  readonly inodes: number;
}

/** What of a layer is counted. */
export type LayerNeed = Pick<Layer, 'digest' | 'sizeBytes' | 'diskBytes' | 'inodes'>;

/** What a runtime lays down beside the files of the layers themselves. */
interface Upkeep {
  /** For each layer. */
  readonly layer: DiskUse;
  /** For each image, when it came by an index; without one it is an inode and 4 KiB less. */
  readonly image: DiskUse;
  /** With the first image. */
  readonly once: DiskUse;
  /** For each inode of a layer, in bytes. The signed contents count regular files alone. */
  readonly bytesPerInode: number;
}

const KIB = 1024;

/** As CRI-O stores images; measured, docs/decisions/disk-space.md ("Measured sizes"). */
const CONTAINERS_STORAGE: Upkeep = {
  layer: { bytes: 34 * KIB, inodes: 8 },
  image: { bytes: 24 * KIB, inodes: 5 },
  once: { bytes: 40 * KIB, inodes: 13 },
  bytesPerInode: 640,
};

/** As containerd stores images; measured, docs/decisions/disk-space.md ("Measured sizes"). */
const CONTAINERD: Upkeep = {
  layer: { bytes: 32 * KIB, inodes: 4 },
  image: { bytes: 32 * KIB, inodes: 3 },
  once: { bytes: 120 * KIB, inodes: 5 },
  bytesPerInode: 576,
};

/** An OCI layout of the embedded runtime: a file for each blob, rounded up to 4 KiB. */
const OCI_LAYOUT: Upkeep = {
  layer: { bytes: 4 * KIB, inodes: 1 },
  image: { bytes: 13 * KIB, inodes: 3 },
  once: { bytes: 24 * KIB, inodes: 6 },
  bytesPerInode: 0,
};

const UPKEEP: Readonly<Record<LayerStorage, Upkeep>> = {
  unpacked: CONTAINERS_STORAGE,
  both: CONTAINERD,
  compressed: OCI_LAYOUT,
};

/**
 * What a runtime takes for images once they are stored: the files of their layers, in blocks of 4
 * KiB as the signed contents say, the compressed size where that is kept as well
 * (docs/runtime-facts.md, fact 22), and what the runtime lays down beside. Rather a little too much
 * than too little.
 *
 * @param layers each once; of `imageCount` images, all new ones
 */
export function diskUse(layers: Iterable<LayerNeed>, imageCount: number, storage: LayerStorage): DiskUse {
  const { layer: each, image, once, bytesPerInode } = UPKEEP[storage];
  const first = imageCount > 0 ? once : { bytes: 0, inodes: 0 };
  let bytes = imageCount * image.bytes + first.bytes;
  let inodes = imageCount * image.inodes + first.inodes;
  for (const layer of layers) {
    const isUnpacked = storage !== 'compressed';
    bytes += each.bytes + (storage === 'unpacked' ? 0 : layer.sizeBytes);
    if (isUnpacked) bytes += layer.diskBytes + layer.inodes * bytesPerInode;
    inodes += each.inodes + (isUnpacked ? layer.inodes : 0);
  }
  return { bytes, inodes };
}
