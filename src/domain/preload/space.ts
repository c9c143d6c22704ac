import type { Image, Layer } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { ImageFilesystem, LayerStorage, StagingPlace } from '../model/image.ts';
import type { PhaseOf } from '../model/phase.ts';
import { type Fault, labelOf, type Reason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import { isWaiting, type Memory, type TaskFailure } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { keptLayers } from './kept-layers.ts';
import { largerTwins, missingLayersOf } from './missing-layers.ts';
import { parallelPulls } from './pull-schedule.ts';

interface SpaceContext {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly policy: Policy;
  readonly presentLayers: ReadonlySet<Digest>;
}

export interface LackingRelease {
  readonly bundle: StoredBundle;
  readonly absentImages: readonly Image[];
}

/**
 * Whether what is neither present nor being pulled fits; undefined when nothing is known about the
 * filesystem.
 *
 * @param ahead releases that come before this one on the path of the stream: what they lack must
 * fit too, so that this one never takes their space.
 */
export function diskVerdict(
  { bundle, absentImages: absent }: LackingRelease,
  ahead: readonly LackingRelease[],
  { observed, memory: { running }, policy, presentLayers }: SpaceContext,
): DiskVerdict | undefined {
  const { runtime } = observed;
  if (runtime.kind !== 'reachable' || runtime.filesystem === undefined) return undefined;
  // The free bytes are already without what a running pull has written: it would count twice.
  const pulling = new Set(running.flatMap((task) => (task.kind === 'pull' ? [task.reference] : [])));
  const layersOf = (image: Image, of = bundle) => largerTwins(missingLayersOf(image, of, presentLayers));
  const underWay = new Set(absent.filter((image) => pulling.has(image.reference)).flatMap((image) => layersOf(image)));
  const waiting = absent.filter((image) => !pulling.has(image.reference));
  const images = waiting.map((image) => layersOf(image).filter((layer) => !underWay.has(layer)));
  const passing = waiting
    .flatMap((image) => missingLayersOf(image, bundle, presentLayers))
    .filter((layer) => !underWay.has(layer));
  const before = ahead.flatMap((other) => other.absentImages.map((image) => layersOf(image, other.bundle)));
  return estimateDisk({
    images: absent.length === 0 ? [] : [...before, ...images],
    filesystem: runtime.filesystem,
    layerStorage: runtime.layerStorage ?? 'unpacked',
    staging: runtime.staging,
    copied: copiedLayers(passing, bundle, observed, policy),
    attachedBytes: attachedBytes(bundle, observed),
    minFreePercent: policy.preload.min_free_percent,
    parallel: Math.max(0, parallelPulls(policy.preload.parallel, runtime.layerStorage) - pulling.size),
  });
}

/**
 * Layers that are copied to the node's own disk, where that takes room from the images: those of
 * all manifests of an index, since media are copied whole.
 */
function copiedLayers(
  layers: readonly Layer[],
  bundle: StoredBundle,
  observed: Observed,
  policy: Policy,
): readonly Layer[] {
  if (observed.layersBesideImages !== true) return [];
  const kept = new Set(keptLayers(bundle, policy.retention).map(({ digest }) => digest));
  return layers.filter(({ digest }) => kept.has(digest) && !observed.localBlobs.has(digest));
}

/**
 * Attachments that are not on the node's own disk yet, where that takes room from the images. They
 * are kept once: a release's folder has another name of the same file.
 */
function attachedBytes({ payload }: StoredBundle, { localBlobs, layersBesideImages }: Observed): number {
  if (layersBesideImages !== true) return 0;
  const lacking = (payload.attachments ?? []).filter(({ digest }) => !localBlobs.has(digest));
  const sizes = new Map(lacking.map(({ digest, size }) => [digest, size]));
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/**
 * The pull that found the runtime's disk full or read-only, until it may be retried. Meanwhile
 * nothing is pulled: other pulls would fill what others on the node need.
 */
export function diskFull({ failures }: Pick<Memory, 'failures'>, now: number): TaskFailure | undefined {
  return failures.find(
    (failure) => failure.task.kind === 'pull' && isStorageTrouble(failure.reason) && isWaiting(failure, now),
  );
}

/**
 * `held (space)` when what is still to be pulled does not fit, or when the disk filled up during a
 * pull.
 */
export function spaceHold(
  { bundle, disk }: { readonly bundle: StoredBundle; readonly disk: DiskVerdict | undefined },
  memory: Pick<Memory, 'failures'>,
  now: number,
): PhaseOf | undefined {
  const [shortage] = disk?.shortages ?? [];
  const reason = shortage === undefined ? diskFull(memory, now)?.reason : shortageReason(bundle, shortage);
  return reason && { phase: 'held', hold: 'space', reason };
}

function shortageReason({ payload }: StoredBundle, { kind, path, needed, free, reserved }: Shortage): Reason {
  const shortage = { kind, path, needed, free, reserved };
  return { code: 'engine/no-space', data: { bundle: labelOf(payload), shortage } };
}

/**
 * What of a filesystem is short: room for the images (and for staging on the same one), inodes for
 * their files, or room on another filesystem where blobs are staged during a pull.
 */
export type ShortageKind = 'bytes' | 'inodes' | 'staging';

/** In bytes, or a number of inodes. */
interface Shortage {
  readonly kind: ShortageKind;
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** Part of what is free that must stay free. */
  readonly reserved: number;
  /** How much would have to become free for it to fit. */
  readonly lacking: number;
}

export interface DiskVerdict {
  /** On the filesystem of the images, the most at any time: with what is staged there. */
  readonly neededBytes: number;
  readonly freeBytes: number;
  /** Part of the free bytes that must stay free. */
  readonly reservedBytes: number;
  readonly path: string;
  readonly fits: boolean;
  /** The clearest first; empty when it fits. */
  readonly shortages: readonly Shortage[];
}

export interface DiskNeed {
  /** Of each image still to be pulled. */
  readonly images: readonly (readonly LayerNeed[])[];
  readonly filesystem: ImageFilesystem;
  readonly layerStorage: LayerStorage;
  readonly staging: StagingPlace | undefined;
  /**
   * Layers of which stickpin keeps a compressed copy on the filesystem of the images; default none.
   */
  readonly copied?: readonly LayerNeed[];
  /**
   * Bytes of attachments that are still to be written to the filesystem of the images; default 0.
   */
  readonly attachedBytes?: number;
  /**
   * Share that stays free of every filesystem: at that mark kubelet starts to evict and to collect
   * images.
   */
  readonly minFreePercent: number;
  /** How many of the images may be staged at once. */
  readonly parallel: number;
}

/**
 * Each layer counts once: what the runtime stores ({@link diskUse}), copies that stickpin keeps,
 * and blobs that the runtime stages until an image is stored (docs/runtime-facts.md, fact 18).
 * Staged are the largest images that may be pulled in parallel. docs/decisions/disk-space.md says
 * why they count in full.
 */
export function estimateDisk(need: DiskNeed): DiskVerdict {
  const { images, filesystem, layerStorage, staging, copied = [], attachedBytes = 0, minFreePercent } = need;
  const layers = new Map(images.flat().map((layer) => [layer.digest, layer]));
  const copies = [...new Map(copied.map((layer) => [layer.digest, layer])).values()];
  // An image that lacks no layer takes a few KiB, and is no reason to wait: the repair of a pin
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

/** Whether the runtime's storage or our own files are on a full or read-only filesystem. */
export function isAnyDiskTrouble(reason: Pick<Fault, 'code'>): boolean {
  return isDiskTrouble(reason) || isStorageTrouble(reason);
}

export function isStorageTrouble({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'runtime/no-space' || code === 'runtime/read-only';
}

/**
 * Whether our own files are on a full or read-only filesystem: a person has to act, then all
 * continues automatically.
 */
export function isDiskTrouble({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'store/no-space' || code === 'store/read-only';
}

/** {@link isDiskTrouble}, or a damaged state database, which lasts until a restart. */
export function isRecordingTrouble(reason: Pick<Fault, 'code'>): boolean {
  return isDiskTrouble(reason) || isStateDamage(reason);
}

export function isStateDamage({ code }: Pick<Fault, 'code'>): boolean {
  return code === 'store/damaged';
}

export interface DiskUse {
  readonly bytes: number;
  readonly inodes: number;
}

type LayerNeed = Pick<Layer, 'digest' | 'sizeBytes' | 'diskBytes' | 'inodes'>;

/** What a runtime stores beside the files of the layers themselves. */
interface Upkeep {
  readonly layer: DiskUse;
  /** For each image, when it came by an index; without one it is an inode and 4 KiB less. */
  readonly image: DiskUse;
  /** With the first image. */
  readonly once: DiskUse;
  /** Bytes for each inode of a layer. The signed contents count regular files alone. */
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
 * What a runtime takes for stored images: the files of their layers, in blocks of 4 KiB as the
 * signed contents say, the compressed size where that is kept as well (docs/runtime-facts.md, fact
 * 22), and its upkeep. Rather a little too much than too little.
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
