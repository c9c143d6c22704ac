import type { BundleId } from '../model/digest.ts';
import type { RuntimeContainer, RuntimeImage } from '../model/image.ts';
import type { Stored, StoredBundle } from '../state/state.ts';
import type { ContainerLook } from './proof/container-look.ts';
import { distinguishingIds, imageIdOf, imageIds } from './proof/evidence.ts';
import { keptBundles } from './recorded-phase.ts';

/** What the runtime has, seen in one moment. */
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

/** Whether a container runs from an image that only this release has. */
export function isRunning(bundle: StoredBundle, { stored: { bundles }, containers, ids }: ContainerLook): boolean {
  return isAnyRunning(bundle, { bundles, containers, ids });
}

/** An older release that runs tells that this one does not yet. */
export function isOtherOfStreamRunning({ bundleId, payload }: StoredBundle, look: ContainerLook): boolean {
  return keptBundles(look.stored.bundles).some(
    (other) =>
      other.bundleId !== bundleId &&
      other.payload.name === payload.name &&
      other.activatedAt !== undefined &&
      isRunning(other, look),
  );
}

function isAnyRunning(
  bundle: StoredBundle,
  { bundles, containers, ids }: Pick<ContainerLook, 'containers' | 'ids'> & Pick<Stored, 'bundles'>,
): boolean {
  const own = distinguishingIds(bundle, bundles, ids);
  return containers.some((container) => container.state !== 'exited' && own.has(imageIdOf(container, ids) ?? ''));
}
