import { artifactLayers, type Image, type Layer } from '../model/bundle.ts';
import type { PhaseOf } from '../model/condition.ts';
import type { Digest } from '../model/digest.ts';
import { type ImageFilesystem, type LayerStorage, type StagingPlace, takesArtifacts } from '../model/image.ts';
import type { NodeFacts } from '../model/machine.ts';
import { type Fault, labelOf, type Reason, type RoleShortage, type ShortOf } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import { isWaiting, type Memory, type TaskFailure } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { largerTwins, missingLayersOf, parallelPulls } from './pull-schedule.ts';

/** By default a kubelet removes images and ends pods when less than 15 % is free. */
const WITH_KUBELET_PERCENT = 15;
const WITHOUT_KUBELET_PERCENT = 5;

/** Returns the percentage of a filesystem that stays free. */
export function minFreePercent(
  { min_free_percent: wanted }: Pick<Policy['preload'], 'min_free_percent'>,
  { hasKubelet = true }: Pick<NodeFacts, 'hasKubelet'>,
): number {
  if (wanted !== 'auto') return wanted;
  return hasKubelet ? WITH_KUBELET_PERCENT : WITHOUT_KUBELET_PERCENT;
}

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
 * Whether the missing images fit. Undefined when the filesystem is unknown.
 *
 * @param ahead releases before this one on the path: they must fit too, so that this one never
 *   takes their space
 */
export function diskVerdict(
  { bundle, absentImages: absent }: LackingRelease,
  ahead: readonly LackingRelease[],
  { observed, memory: { running }, policy, presentLayers }: SpaceContext,
): DiskVerdict | undefined {
  const { runtime } = observed;
  if (runtime.kind !== 'reachable' || runtime.filesystem === undefined) return undefined;
  // The free bytes already exclude the data that a running pull has written.
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
    copied: [
      ...copiedLayers([...passing, ...artifactLayers(bundle.contents)], bundle, observed, policy),
      ...ahead.flatMap((other) => copiedLayers(artifactLayers(other.bundle.contents), other.bundle, observed, policy)),
    ],
    taken: [bundle, ...ahead.map((other) => other.bundle)].flatMap((one) => layersToTake(one, observed, pulling)),
    attachedBytes: attachedBytes(bundle, observed),
    minFreePercent: minFreePercent(policy.preload, observed.facts),
    isKeptForKubelet: policy.preload.min_free_percent === 'auto' && observed.facts.hasKubelet !== false,
    parallel: Math.max(0, parallelPulls(policy.preload.parallel, runtime.layerStorage) - pulling.size),
  });
}

/** Returns copies beside the images: layers of all manifests, since media are copied whole. */
function copiedLayers(
  layers: readonly Layer[],
  bundle: StoredBundle,
  observed: Observed,
  policy: Policy,
): readonly Layer[] {
  if (observed.layersBesideImages !== true) return [];
  const all = [...keptLayers(bundle, policy.retention), ...artifactLayers(bundle.contents)];
  const kept = new Set(all.map(({ digest }) => digest));
  return layers
    .filter(({ digest }) => kept.has(digest) && !observed.localBlobs.has(digest))
    .map((layer) => withoutPart(layer, observed));
}

/** The free bytes already exclude the copied part. */
function withoutPart(layer: Layer, { layerParts }: Observed): Layer {
  return { ...layer, sizeBytes: Math.max(0, layer.sizeBytes - (layerParts?.get(layer.digest) ?? 0)) };
}

/**
 * CRI-O copies artifacts to its own store, on the filesystem of the images (docs/runtime-facts.md,
 * fact 51).
 */
function layersToTake({ contents }: StoredBundle, { runtime }: Observed, pulling: ReadonlySet<string>) {
  const { layers, artifacts = [] } = contents;
  if (artifacts.length === 0 || runtime.kind !== 'reachable' || !takesArtifacts(runtime)) return [];
  const has = new Set([...pulling, ...runtime.images.flatMap(({ repoDigests }) => repoDigests)]);
  return artifactLayers({ layers, images: [], artifacts: artifacts.filter(({ reference }) => !has.has(reference)) });
}

/** Returns bytes of attachments to store beside the images. Release folders hard-link them. */
function attachedBytes({ payload }: StoredBundle, { localBlobs, layersBesideImages }: Observed): number {
  if (layersBesideImages !== true) return 0;
  const lacking = (payload.attachments ?? []).filter(({ digest }) => !localBlobs.has(digest));
  const sizes = new Map(lacking.map(({ digest, size }) => [digest, size]));
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** Pulls stop until a retry is due: they would fill space that others on the node need. */
export function diskFull({ failures }: Pick<Memory, 'failures'>, now: number): TaskFailure | undefined {
  return failures.find(
    (failure) => failure.task.kind === 'pull' && isStorageTrouble(failure.reason) && isWaiting(failure, now),
  );
}

interface Short {
  readonly bundle: StoredBundle;
  readonly disk: DiskVerdict | undefined;
  readonly share: RoleShortage | undefined;
}

/** `held (space)`: the missing images do not fit, or the disk filled up during a pull. */
export function spaceHold(
  { bundle, disk, share }: Short,
  memory: Pick<Memory, 'failures'>,
  now: number,
): PhaseOf | undefined {
  if (share !== undefined) {
    const reason = { code: 'engine/over-share', data: { bundle: labelOf(bundle.payload), share } } as const;
    return { phase: 'held', hold: 'space', reason };
  }
  const [shortage] = disk?.shortages ?? [];
  const reason = shortage === undefined ? diskFull(memory, now)?.reason : shortageReason(bundle, shortage);
  return reason && { phase: 'held', hold: 'space', reason };
}

function shortageReason({ payload }: StoredBundle, { lacking: _lacking, ...shortage }: Shortage): Reason {
  return { code: 'engine/no-space', data: { bundle: labelOf(payload), shortage } };
}

interface Shortage extends ShortOf {
  readonly lacking: number;
}

export interface DiskVerdict {
  /** The most that the filesystem of the images needs at any time, including staging. */
  readonly neededBytes: number;
  readonly freeBytes: number;
  readonly reservedBytes: number;
  readonly path: string;
  readonly fits: boolean;
  /** The clearest shortage comes first. Empty when the bundle fits. */
  readonly shortages: readonly Shortage[];
}

export interface DiskNeed {
  readonly images: readonly (readonly LayerNeed[])[];
  readonly filesystem: ImageFilesystem;
  readonly layerStorage: LayerStorage;
  readonly staging: StagingPlace | undefined;
  /** Layers that stickpin copies to the filesystem of the images. */
  readonly copied?: readonly LayerNeed[];
  /** Layers of artifacts that the runtime copies to the filesystem of the images. */
  readonly taken?: readonly LayerNeed[];
  /** Bytes of attachments still to be written to the filesystem of the images. Default 0. */
  readonly attachedBytes?: number;
  readonly minFreePercent: number;
  readonly isKeptForKubelet?: boolean;
  readonly parallel: number;
}

/**
 * Each layer counts once: the runtime's storage ({@link diskUse}), copies that stickpin keeps, and
 * blobs that the runtime stages until an image is stored (docs/runtime-facts.md, fact 18). The
 * largest images that may be pulled in parallel are staged. docs/decisions/disk-space.md says why
 * they count in full.
 */
export function estimateDisk(need: DiskNeed): DiskVerdict {
  const {
    images,
    filesystem,
    layerStorage,
    staging,
    copied = [],
    taken = [],
    attachedBytes = 0,
    minFreePercent: percent,
    isKeptForKubelet,
  } = need;
  const layers = new Map(images.flat().map((layer) => [layer.digest, layer]));
  const copies = [copied, taken].flatMap((all) => [...new Map(all.map((layer) => [layer.digest, layer])).values()]);
  // An image with all its layers takes a few KiB: the repair of a pin must not depend on space.
  const used = diskUse(layers.values(), layers.size === 0 ? 0 : images.length, layerStorage);
  const staged = staging === 'with-images' ? stagedBytes(need) : 0;
  const attached = layers.size === 0 ? 0 : attachedBytes;
  const neededBytes = used.bytes + staged + attached + copies.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const neededInodes = used.inodes + copies.length;
  const kept = { percent, ...(isKeptForKubelet && { isKeptForKubelet }) };
  const reserve = (total: number) => ({ ...kept, reserved: Math.ceil((total * percent) / 100) });
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
    reservedBytes: Math.min(reserve(totalBytes).reserved, freeBytes),
    path,
    fits: shortages.length === 0,
    shortages,
  };
}

function shortage(
  kind: ShortOf['kind'],
  path: string,
  needed: number,
  free: number,
  kept: Pick<ShortOf, 'percent' | 'reserved' | 'isKeptForKubelet'>,
): Shortage | undefined {
  const lacking = needed - (free - kept.reserved);
  if (needed === 0 || lacking <= 0) return undefined;
  return { kind, path, needed, free, ...kept, lacking };
}

/** Returns the most bytes staged at once: the largest images, which share no missing layer. */
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

/** Whether the runtime's storage or stickpin's files are on a full or read-only filesystem. */
export function isAnyDiskTrouble(reason: Fault): boolean {
  return isDiskTrouble(reason) || isStorageTrouble(reason);
}

export function isStorageTrouble({ code }: Fault): boolean {
  return code === 'runtime/no-space' || code === 'runtime/read-only';
}

/** Whether stickpin's files are on a full or read-only filesystem. */
export function isDiskTrouble({ code }: Fault): boolean {
  return code === 'store/no-space' || code === 'store/read-only';
}

/** {@link isDiskTrouble}, or a damaged state database, which lasts until a restart. */
export function isRecordingTrouble(reason: Fault): boolean {
  return isDiskTrouble(reason) || isStateDamage(reason);
}

export function isStateDamage({ code }: Fault): boolean {
  return code === 'store/damaged';
}

export interface DiskUse {
  readonly bytes: number;
  readonly inodes: number;
}

type LayerNeed = Pick<Layer, 'digest' | 'sizeBytes' | 'diskBytes' | 'inodes'>;

/** Space that a runtime needs beside the files of the layers. */
interface Upkeep {
  readonly layer: DiskUse;
  /** Each image from an index takes this. An image without one takes an inode and 4 KiB less. */
  readonly image: DiskUse;
  readonly once: DiskUse;
  /** Each inode of a layer takes this. The signed contents count only regular files. */
  readonly bytesPerInode: number;
}

const KIB = 1024;

/** docs/decisions/disk-space.md ("Measured sizes") has the measurements. */
const CONTAINERS_STORAGE: Upkeep = {
  layer: { bytes: 34 * KIB, inodes: 8 },
  image: { bytes: 24 * KIB, inodes: 5 },
  once: { bytes: 40 * KIB, inodes: 13 },
  bytesPerInode: 640,
};

const CONTAINERD: Upkeep = {
  layer: { bytes: 32 * KIB, inodes: 4 },
  image: { bytes: 32 * KIB, inodes: 3 },
  once: { bytes: 120 * KIB, inodes: 5 },
  bytesPerInode: 576,
};

/** The embedded runtime has a file for each blob, rounded up to 4 KiB. */
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
 * Estimates the space of stored images, rather too much than too little: files in blocks of 4 KiB,
 * the compressed size where that is kept too (docs/runtime-facts.md, fact 22), and upkeep.
 *
 * @param layers each once, of `imageCount` new images
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

export function keptLayers(
  { contents }: KeptBundle,
  { blobs, keep_components }: Policy['retention'],
): readonly Layer[] {
  if (blobs === 'kept') return contents.layers;
  if (keep_components.length === 0) return [];
  const images = contents.images.filter(
    ({ component }) => component !== undefined && keep_components.includes(component),
  );
  const indexes = new Set(images.flatMap(({ layers }) => layers));
  return contents.layers.filter((_layer, index) => indexes.has(index));
}

export function unknownComponents(
  bundles: readonly KeptBundle[],
  { keep_components }: Policy['retention'],
): readonly string[] {
  if (bundles.length === 0 || keep_components.length === 0) return [];
  const known = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ component }) => component)));
  return [...new Set(keep_components)].filter((name) => !known.has(name));
}

type KeptBundle = Pick<StoredBundle, 'contents'>;
