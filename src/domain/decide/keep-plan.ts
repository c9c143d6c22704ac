import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Layer } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import { keptLayers } from '../preload/kept-layers.ts';
import { missingLayersOf } from '../preload/missing-layers.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed } from '../state/state.ts';

/** Which layers lie on the node's own disk. */
export interface KeepPlan {
  /**
   * The layers to keep. They are stored during their transfer, and removed when they are in no plan
   * any more.
   */
  readonly wanted: ReadonlySet<Digest>;
  /**
   * Those of them that are not, and that a plugged medium has: copied when nothing is left to pull.
   */
  readonly copy: readonly Layer[];
}

/**
 * The layers to keep (docs/decisions/blob-sources.md): those that the settings name, and always
 * those of images that need several media one after the other. While there are unclaimed pins,
 * every kept layer stays: it may belong to a release whose records are lost.
 *
 * @returns undefined while the runtime does not answer, since it is unknown then what it lacks
 */
export function keepPlan(observed: Observed, assessment: Assessment, policy: Policy): KeepPlan | undefined {
  if (observed.runtime.kind !== 'reachable') return undefined;
  const layers = new Map<Digest, Layer>();
  for (const entry of assessment.bundles) {
    if (entry.phase === 'retired' || entry.withdrawn !== undefined) continue;
    const kept = keptLayers(entry.bundle, policy.retention);
    for (const layer of [...kept, ...awaited(entry, assessment, observed.localBlobs)]) layers.set(layer.digest, layer);
  }
  const offered = layers.size === 0 ? layers : offeredByMedia(observed);
  const doubtful = assessment.pins.unclaimed.length > 0 ? observed.localBlobs : [];
  return {
    wanted: new Set([...layers.keys(), ...doubtful]),
    copy: [...layers.values()].filter(({ digest }) => offered.has(digest) && !observed.localBlobs.has(digest)),
  };
}

/**
 * Layers of absent images that can't be pulled yet, since a part of them lies elsewhere; and what
 * was copied of one until it is present.
 */
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
