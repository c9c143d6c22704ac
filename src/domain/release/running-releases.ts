import type { BundleId } from '../model/digest.ts';
import type { RuntimeContainer, RuntimeImage, RuntimeObservation } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import { type ContainerView, distinguishingIds, imageIdOf, imageIds } from './proof/evidence.ts';
import { neverActivated } from './proof/seen-running.ts';
import { keptBundles, unprovenReleases } from './recorded-phase.ts';
import { removableIds, spareTags, surplusBundles, withoutUses } from './retention.ts';
import { isContainerCheckDue } from './rollback.ts';

/** The containers of one moment. */
export interface ContainersSeen {
  readonly images: readonly RuntimeImage[];
  readonly containers: readonly RuntimeContainer[];
}

/** Kept releases whose distinguishing images have containers that are not over. */
export function runningReleases(
  bundles: readonly StoredBundle[],
  { images, containers }: ContainersSeen,
): ReadonlySet<BundleId> {
  const seen = { bundles, containers, ids: imageIds(images) };
  return new Set(keptBundles(bundles).flatMap((bundle) => (isAnyRunning(bundle, seen) ? [bundle.bundleId] : [])));
}

export function isRunning(bundle: StoredBundle, { stored: { bundles }, containers, ids }: ContainerView): boolean {
  return isAnyRunning(bundle, { bundles, containers, ids });
}

/** While an older release runs, this one does not yet. */
export function isOtherOfStreamRunning({ bundleId, payload }: StoredBundle, view: ContainerView): boolean {
  return keptBundles(view.stored.bundles).some(
    (other) =>
      other.bundleId !== bundleId &&
      other.payload.name === payload.name &&
      other.activatedAt !== undefined &&
      isRunning(other, view),
  );
}

function isAnyRunning(
  bundle: StoredBundle,
  { bundles, containers, ids }: Pick<ContainerView, 'containers' | 'ids'> & Pick<Stored, 'bundles'>,
): boolean {
  const own = distinguishingIds(bundle, bundles, ids);
  return containers.some((container) => container.state !== 'exited' && own.has(imageIdOf(container, ids) ?? ''));
}

interface BeforeList {
  readonly isShort: boolean;
  readonly sinceListMs: number;
  readonly observed: Pick<Observed, 'now' | 'boot' | 'imageUses'>;
}

/** While all is proven containers are listed rarely, since an older release may run again. */
export function needsContainers(
  stored: Stored,
  runtime: RuntimeObservation,
  policy: Policy,
  { isShort, sinceListMs, observed }: BeforeList,
): boolean {
  if (runtime.kind !== 'reachable') return false;
  if (isContainerCheckDue(stored.bundles, sinceListMs, policy.lifecycle)) return true;
  if (isShort || unprovenReleases(stored).length + neverActivated(stored.bundles).length > 0) return true;
  if (surplusBundles(stored.bundles, policy.lifecycle).length > 0) return true;
  const context = { images: runtime.images, ids: imageIds(runtime.images), stored };
  return stored.bundles.some(
    (bundle) =>
      removableIds(bundle, context).length > 0 ||
      withoutUses(spareTags(bundle, observed.now, context), observed).length > 0,
  );
}
