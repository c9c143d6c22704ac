import { allIn } from '../model/bundle.ts';
import type { RuntimeImage } from '../model/image.ts';
import type { LifecycleFinding, Removal } from '../state/effect.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import { type ContainerView, imageIds } from './evidence.ts';
import { isRetired, keptBundles } from './recorded-phase.ts';
import { areUnnamed, oldOfNode } from './replacements.ts';
import { removableIds, spareTagsIn, surplusBundles, withoutPodImages, withoutUsed } from './retention.ts';
import { ownArtifactLayers, roomFor, type ShortOfSpace, spareReleases } from './room.ts';
import { isRunning } from './running-releases.ts';
import type { Shares } from './shares.ts';
import { isReliable } from './whole.ts';

/** How often to check whether pins are removed. Nothing signals the end of a reload. */
export const UNPIN_POLL_MS = 1_000;
/** How long to check. Another program pins an image that is still pinned then. */
const UNPIN_TIMEOUT_MS = 30_000;

export function isUnpinning({ runtime, now }: Observed, { bundles }: Stored): boolean {
  if (runtime.kind !== 'reachable') return false;
  const needed = new Set(
    keptBundles(bundles).flatMap(({ contents }) => allIn(contents).map(({ reference }) => reference)),
  );
  const fresh = bundles.filter(
    (bundle) =>
      isRetired(bundle) && bundle.removeImages === true && Math.abs(now - (bundle.retiredAt ?? 0)) < UNPIN_TIMEOUT_MS,
  );
  const leaving = new Set(
    fresh
      .flatMap(({ contents }) => allIn(contents).map(({ reference }) => reference))
      .filter((name) => !needed.has(name)),
  );
  return (
    leaving.size > 0 &&
    runtime.images.some((image) => image.pinned && image.repoDigests.some((name) => leaving.has(name)))
  );
}

/** Returns releases beyond `lifecycle.keep`, or one that makes room. */
export function retirements(view: ContainerView, short: readonly ShortOfSpace[], shares: Shares): LifecycleFinding[] {
  const { memory, stored, policy, containers, whole } = view;
  // An unread volume may use any of them, and then a retirement would free no room.
  if (containers.some(({ volumeImages }) => volumeImages === 'unknown')) return [];
  const isFree = (bundle: StoredBundle) =>
    isReliable(bundle.payload.name, stored.bundles, whole) &&
    !isRunning(bundle, view) &&
    !memory.running.some((task) => task.kind === 'activate' && task.bundleId === bundle.bundleId);
  const surplus = surplusBundles(stored.bundles, policy.lifecycle)
    .filter(isFree)
    .map((bundle): LifecycleFinding => ({ kind: 'spare', bundleId: bundle.bundleId }));
  // One release at a time: the space that the last one freed must be observed first.
  const isLeaving = withRemovals(view).some(({ images }) => images.length > 0) || areArtifactsLeft(view);
  if (surplus.length > 0 || isLeaving || isUnpinning(view.observed, stored)) return surplus;
  const isOfRole = ({ bundle }: ShortOfSpace) => Number(shares.owners.has(bundle.bundleId));
  for (const one of [...short].sort((a, b) => isOfRole(a) - isOfRole(b))) {
    const spares = spareReleases(one, view, shares, isFree);
    const room = { spares, shares, withArtifacts: view.observed.layersBesideImages };
    const given = roomFor(one, stored, policy.lifecycle, room);
    if (given !== undefined && isFree(given)) {
      return [{ kind: 'spare', bundleId: given.bundleId, roomFor: one.bundle.bundleId }];
    }
  }
  return [];
}

/** Files of retired releases are about to be removed. */
function areArtifactsLeft({ stored: { bundles }, observed: { localBlobs }, unclaimed }: ContainerView): boolean {
  const layers = ownArtifactLayers(bundles.filter(isRetired), keptBundles(bundles));
  return unclaimed.length === 0 && layers.some(({ digest }) => localBlobs.has(digest));
}

export function removals(view: ContainerView): LifecycleFinding[] {
  const { bundles } = view.stored;
  const taken = new Set<string>();
  // A release that a person gave up, or that was never complete, is removed in any case.
  const isFree = ({ payload, isGivenUp, readyAt }: StoredBundle) =>
    isGivenUp === true || readyAt === undefined || isReliable(payload.name, bundles, view.whole);
  const spareOf = withSpareTags(view);
  const byBundle = new Map(withRemovals(view).map(({ bundle, images }) => [bundle, images]));
  return bundles.filter(isFree).flatMap((bundle): LifecycleFinding[] => {
    const images = (byBundle.get(bundle) ?? []).filter(({ imageId }) => !taken.has(imageId));
    const tags = spareOf(bundle).filter((tag) => !taken.has(tag));
    for (const name of [...images.map(({ imageId }) => imageId), ...tags]) taken.add(name);
    if (images.length + tags.length === 0) return [];
    return [{ kind: 'removable', bundleId: bundle.bundleId, images, ...(tags.length > 0 && { tags }) }];
  });
}

interface SeenAgain extends Pick<ContainerView, 'stored' | 'policy' | 'containers' | 'unclaimed'> {
  readonly image: RuntimeImage;
}

/**
 * Whether a removal may still be done. Since then a container or a command may have begun, a
 * release may be adopted, or the image may have another name.
 */
export function isStillRemovable(
  { bundleId, areOfNode }: Pick<Extract<LifecycleFinding, { kind: 'removable' }>, 'bundleId' | 'areOfNode'>,
  { imageId, containerIds }: Removal,
  { image, stored, policy, containers, unclaimed }: SeenAgain,
): boolean {
  const ids = imageIds([image]);
  const bundle = stored.bundles.find((one) => one.bundleId === bundleId);
  const isFree =
    areOfNode === true
      ? oldOfNode([image], stored).length > 0 && areUnnamed(image.repoTags, containers)
      : bundle &&
        removableIds({ images: [image], ids, stored, policy, unclaimed })
          .get(bundle)
          ?.includes(imageId);
  const users = withoutUsed([imageId], containers, ids);
  return isFree === true && users.some((now) => now.containerIds.every((id) => containerIds.includes(id)));
}

function withRemovals({ observed: { runtime }, stored, policy, containers, ids, unclaimed }: ContainerView) {
  if (runtime.kind !== 'reachable') return [];
  const removable = removableIds({ images: runtime.images, ids, stored, policy, unclaimed });
  return [...removable].map(([bundle, imageIds]) => {
    const { artifacts = [] } = bundle.contents;
    const images = withoutUsed(imageIds, containers, ids).map((removal) => {
      const name = artifacts.find(({ reference }) => ids.of(reference) === removal.imageId)?.reference;
      return { ...removal, ...(name !== undefined && { name }) };
    });
    return { bundle, images };
  });
}

function withSpareTags(view: ContainerView): (bundle: StoredBundle) => readonly string[] {
  const { observed, stored, policy, ids, unclaimed } = view;
  const { runtime, now } = observed;
  // Removed images come first, so that one event names both.
  if (runtime.kind !== 'reachable' || isUnpinning(observed, stored)) return () => [];
  const spareOf = spareTagsIn(now, { images: runtime.images, ids, stored, policy, unclaimed });
  return (bundle) => withoutPodImages(spareOf(bundle), view);
}
