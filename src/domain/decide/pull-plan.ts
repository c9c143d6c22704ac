import { pathOf } from '../activation/read-paths.ts';
import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { type Artifact, allIn, artifactLayers, type Image, type Layer } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import {
  fill,
  missingLayersOf,
  orderPulls,
  type PlannedPull,
  type PullCandidate,
  type PullStarts,
  parallelPulls,
  spreadOf,
} from '../preload/pull-schedule.ts';
import { diskFull, keptLayers } from '../preload/space.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory, RunningTask } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import { failedPulls, isCut } from './release-effects.ts';

export function planPulls(observed: Observed, memory: Memory, assessment: Assessment, policy: Policy): PullStarts {
  const running = runningPulls(memory, assessment);
  const { runtime } = observed;
  const layerStorage = runtime.kind === 'reachable' ? runtime.layerStorage : undefined;
  const spread = spreadOf(observed, policy, layerStorage);
  const waiting =
    diskFull(memory, observed.now) === undefined
      ? byPath(orderPulls(candidates(observed, memory, assessment), spread), assessment)
      : [];
  const parallel = parallelPulls(policy.preload.parallel, layerStorage);
  return fill({ waiting, running, landed: new Set(), parallel, readsSharedOnce: layerStorage === 'both' });
}

function byPath(pulls: readonly PlannedPull[], { bundles, paths }: Assessment): PlannedPull[] {
  const ranks = new Map(
    bundles.map(({ bundle: { bundleId, payload } }) => {
      const { route } = pathOf(paths, payload.name);
      const at = route.findIndex(({ id }) => id === bundleId);
      return [bundleId, at < 0 ? route.length : at] as const;
    }),
  );
  const rankOf = ({ task }: PlannedPull) => ranks.get(task.bundleId) ?? 0;
  return [...pulls].sort((a, b) => rankOf(a) - rankOf(b));
}

export function isPreloading({ bundle, phase, hold, disk, share, withdrawn }: BundleAssessment): boolean {
  if (bundle.cancelled !== undefined || withdrawn !== undefined) return false;
  if (disk?.fits === false || share !== undefined) return false;
  // Images that the runtime refused stay wanted, so that a correction is noticed.
  if (phase === 'held') return hold === 'runtime';
  return phase !== 'retired' && phase !== 'rejected' && phase !== 'detected';
}

function candidates(observed: Observed, memory: Memory, assessment: Assessment): PlannedPull[] {
  const areMediaRead = observed.media.every(({ state }) => state.kind !== 'attached' && state.kind !== 'mounted');
  const unwanted = new Set([...failedPulls(memory, observed.now), ...referencesOf(memory.running)]);
  const planned = new Map<string, PlannedPull>();
  for (const entry of assessment.bundles.filter(isPreloading)) {
    const online = new Set(entry.onlineImages);
    for (const artifact of entry.artifactsToPull) {
      if (!unwanted.has(artifact.reference))
        planned.set(artifact.reference, plannedPull(artifact, entry, false, assessment));
    }
    for (const image of entry.pullableImages) {
      if (unwanted.has(image.reference)) continue;
      // A stick that is being read may have the blobs.
      if (online.has(image) && !areMediaRead) continue;
      planned.set(image.reference, plannedPull(image, entry, online.has(image), assessment));
    }
  }
  return [...planned.values()];
}

function plannedPull(
  image: Image | Artifact,
  entry: BundleAssessment,
  isOnline: boolean,
  assessment: Assessment,
): PlannedPull {
  const { reference } = image;
  const online = isOnline ? ({ online: true } as const) : {};
  return {
    reference,
    missingLayers: missingLayersOf(image, entry.bundle, assessment.presentLayers),
    task: { kind: 'pull', bundleId: entry.bundle.bundleId, reference, ...online },
  };
}

/** Covers all images: a running pull may have lost its medium but still holds its layers. */
function runningPulls({ running }: Memory, assessment: Assessment): PullCandidate[] {
  const { bundles, presentLayers } = assessment;
  return running.flatMap((task): PullCandidate[] => {
    if (task.kind !== 'pull') return [];
    const bundle = bundles.find((entry) => entry.bundle.bundleId === task.bundleId)?.bundle;
    const image = bundle && allIn(bundle.contents).find(({ reference }) => reference === task.reference);
    const missingLayers = bundle && image ? missingLayersOf(image, bundle, presentLayers) : [];
    return [{ reference: task.reference, missingLayers, isCut: isCut(task, assessment) }];
  });
}

function referencesOf(tasks: readonly RunningTask[]): string[] {
  return tasks.flatMap((task) => (task.kind === 'pull' ? [task.reference] : []));
}

export interface KeepPlan {
  /** Blobs are stored during their transfer, and removed once no plan names them. */
  readonly wanted: ReadonlySet<Digest>;
  /** These layers are on a plugged medium and not kept yet. They are copied after all pulls. */
  readonly copy: readonly Layer[];
}

/**
 * Returns the layers to keep (docs/decisions/blob-sources.md): those of the settings, those of
 * artifacts, and those of images that need several media. While there are unclaimed pins every kept
 * layer stays: its release may have lost its records.
 *
 * @returns undefined while the runtime does not answer
 */
export function keepPlan(observed: Observed, assessment: Assessment, policy: Policy): KeepPlan | undefined {
  if (observed.runtime.kind !== 'reachable') return undefined;
  const { localBlobs } = observed;
  const wanted = new Set<Digest>(assessment.pins.unclaimed.length > 0 ? localBlobs : []);
  const lacking = new Map<Digest, Layer>();
  for (const entry of assessment.bundles) {
    if (entry.phase === 'retired') continue;
    const { withdrawn, bundle, disk, share } = entry;
    const artifacts = artifactLayers(bundle.contents);
    // Artifact layers of a release without trust stay, as its images do.
    const layers =
      withdrawn === undefined
        ? [...keptLayers(bundle, policy.retention), ...awaited(entry, assessment, localBlobs), ...artifacts]
        : artifacts.filter(({ digest }) => localBlobs.has(digest));
    for (const { digest } of layers) wanted.add(digest);
    if (bundle.cancelled !== undefined || disk?.fits === false || share !== undefined) continue;
    for (const layer of layers) if (!localBlobs.has(layer.digest)) lacking.set(layer.digest, layer);
  }
  const offered = lacking.size === 0 ? lacking : offeredByMedia(observed);
  return { wanted, copy: [...lacking.values()].filter(({ digest }) => offered.has(digest)) };
}

/** Returns layers of images that need another medium too, until the image is present. */
function awaited(
  { bundle, absentImages, pullableImages, hold }: BundleAssessment,
  { presentLayers }: Assessment,
  localBlobs: ReadonlySet<Digest>,
): Layer[] {
  // Layers in the base of a delta are not on another volume.
  if (hold === 'base') return [];
  const pullable = new Set(pullableImages);
  return absentImages.flatMap((image) =>
    missingLayersOf(image, bundle, presentLayers).filter(
      ({ digest }) => !pullable.has(image) || localBlobs.has(digest),
    ),
  );
}

function offeredByMedia({ media }: Observed): ReadonlySet<Digest> {
  const offered = new Set<Digest>();
  for (const { state } of media) {
    for (const found of state.kind === 'read' ? state.bundles : []) {
      if (found.kind !== 'verified') continue;
      const missing = new Set(found.missing.map(({ digest }) => digest));
      for (const { digest } of found.bundle.contents.layers) if (!missing.has(digest)) offered.add(digest);
    }
  }
  return offered;
}
