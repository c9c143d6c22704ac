import type { Image, Layer } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { PhaseOf } from '../model/phase.ts';
import { labelOf, type Reason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import { isWaiting, type Memory, type TaskFailure } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { type DiskVerdict, estimateDisk, type Shortage } from './disk-estimate.ts';
import { isStorageTrouble } from './disk-trouble.ts';
import { keptLayers } from './kept-layers.ts';
import { largerTwins, missingLayersOf } from './missing-layers.ts';
import { parallelPulls } from './parallel-pulls.ts';

/** What the estimate for one bundle looks at. */
export interface SpaceContext {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly policy: Policy;
  readonly presentLayers: ReadonlySet<Digest>;
}

/** What of a release lacks. */
export interface LackingRelease {
  readonly bundle: StoredBundle;
  readonly absentImages: readonly Image[];
}

/**
 * Whether what is neither present nor being pulled fits; undefined when nothing is known about the
 * filesystem.
 *
 * @param ahead releases that come before this one on the path of the stream: what they lack must
 *   fit too, so that this one never takes their space.
 */
export function diskVerdict(
  { bundle, absentImages: absent }: LackingRelease,
  ahead: readonly LackingRelease[],
  { observed, memory: { running }, policy, presentLayers }: SpaceContext,
): DiskVerdict | undefined {
  const { runtime } = observed;
  if (runtime.kind !== 'reachable' || runtime.filesystem === undefined) return undefined;
  // What a running pull has written already lacks from the free bytes, so that counting it as
  // needed would count it twice.
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
 * Layers that are written to the node's own disk, where that takes room from the images: those of
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
 * The pull that found the runtime's disk full or read-only, for as long as it must not be tried
 * again. While there is one nothing is pulled at all: every other pull would only fill what others
 * on the node need.
 */
export function diskFull({ failures }: Pick<Memory, 'failures'>, now: number): TaskFailure | undefined {
  return failures.find(
    (failure) => failure.task.kind === 'pull' && isStorageTrouble(failure.reason) && isWaiting(failure, now),
  );
}

/**
 * `held (space)` when what is still to be pulled does not fit, or when the disk filled up while
 * something was pulled.
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
