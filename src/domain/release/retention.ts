import { onceFor } from '../../platform/once-for.ts';
import { sequenceOf, streamClockFault } from '../adoption/floors.ts';
import { allIn, bundleName } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { type ImageUse, type RuntimeContainer, type RuntimeImage, usableImages } from '../model/image.ts';
import { repositoryOf } from '../model/reference.ts';
import { absentArtifacts } from '../preload/supply.ts';
import type { Policy } from '../settings/settings.ts';
import type { Removal } from '../state/effect.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import { type ContainerView, type ImageIds, imageIdOf } from './evidence.ts';
import { currentRelease, isProven, isRetired, isRolledBack, keptBundles, lastProven } from './recorded-phase.ts';
import { goalsAfterProof, proofGoals, type TagGoal, tagGoalsOf } from './tag-goals.ts';
import type { Whole } from './whole.ts';

/** The release itself or a setting protects it. */
export function isProtected({ payload }: StoredBundle, { protect }: Policy['lifecycle']): boolean {
  return payload.keep === 'life' || protect.includes(bundleName(payload));
}

/** A bundle of another stream is no base. */
export function isBaseOf({ bundleId, payload: { name } }: StoredBundle, { payload }: StoredBundle): boolean {
  return payload.update?.base === bundleId && payload.name === name;
}

/** Whether an incomplete delta builds on it: only images of the base have its missing layers. */
export function isBaseInNeed(base: StoredBundle, bundles: readonly StoredBundle[]): boolean {
  return waitingDeltas(bundles).some((delta) => isBaseOf(base, delta));
}

const waitingDeltas = onceFor((bundles: readonly StoredBundle[]) =>
  keptBundles(bundles).filter(({ readyAt, payload }) => readyAt === undefined && payload.update?.base !== undefined),
);

export function isWanted({ activationRequestedAt = 0, activatedAt = 0 }: StoredBundle): boolean {
  return activationRequestedAt > activatedAt;
}

/**
 * Returns the bundles that are no longer kept after a newer one has proven itself: proven ones
 * beyond `keep`, and those with a lower sequence than the last known good release. The last
 * activated release, the last known good one, a requested one, the base of a delta that is not
 * ready, and a protected one always stay. The oldest comes first.
 */
export function surplusBundles(bundles: readonly StoredBundle[], policy: Policy['lifecycle']): readonly StoredBundle[] {
  const kept = keptBundles(bundles).filter((bundle) => !isProtected(bundle, policy));
  return kept.filter((bundle) => {
    const { name } = bundle.payload;
    const good = lastProven(bundles, name);
    if (good === undefined || bundle === good || bundle === currentRelease(bundles, name)) return false;
    if (isWanted(bundle) || isBaseInNeed(bundle, bundles)) return false;
    // A claimed release may have been the fallback before its records were lost.
    const isOlder = sequenceOf(bundle) < sequenceOf(good);
    if (bundle.provenAt === undefined && !(bundle.claimedAt !== undefined && isOlder)) return isOlder;
    const newer = kept.filter(
      (other) => other.payload.name === name && (other.provenAt ?? -1) > (bundle.provenAt ?? 0),
    );
    return newer.length >= policy.keep;
  });
}

interface RemovalContext {
  readonly images: readonly RuntimeImage[];
  readonly ids: ImageIds;
  readonly stored: Stored;
  readonly policy: Pick<Policy, 'streams'>;
  /** These pinned references have no known release. */
  readonly unclaimed?: readonly string[];
}

/**
 * Returns image ids of each retired bundle that may be removed: stickpin pulled them, no kept
 * bundle, pin or unclaimed pin names them, and all their names are stickpin's. A bundle on which an
 * unready delta builds has none. Containers are not considered. The work grows with the sum of
 * bundles and images, not with their product.
 */
export function removableIds({
  images,
  ids,
  stored,
  policy: { streams },
  unclaimed = [],
}: RemovalContext): ReadonlyMap<StoredBundle, readonly string[]> {
  const { bundles, pulledByUs = new Set() } = stored;
  const leaving = bundles.filter(
    (bundle) => isRetired(bundle) && bundle.removeImages === true && !isBaseInNeed(bundle, bundles),
  );
  if (leaving.length === 0) return new Map();
  const needed = new Set<string | undefined>([
    ...keptBundles(bundles).flatMap(({ contents }) => allIn(contents).map(({ reference }) => ids.of(reference))),
    ...unclaimed.map((reference) => ids.of(reference)),
  ]);
  const ours = namesOf(bundles);
  const given = new Set(bundles.flatMap((one) => goalsAfterProof(one, streams)).map(({ tag }) => tag));
  const pulled = idsPulledByUs(bundles, ids, pulledByUs);
  const free = new Set(
    images
      .filter((image) => !image.pinned && !needed.has(image.imageId) && pulled.has(image.imageId))
      .filter((image) => image.repoTags.every((tag) => ours.tags.has(tag) || given.has(tag)))
      .filter((image) => image.repoDigests.every((name) => ours.repositories.has(repositoryOf(name))))
      .map((image) => image.imageId),
  );
  return new Map(
    leaving.map((bundle) => {
      const imageIds = new Set(allIn(bundle.contents).map(({ reference }) => ids.of(reference) ?? ''));
      return [bundle, [...imageIds].filter((imageId) => free.has(imageId))];
    }),
  );
}

/** The time after a retirement in which its tags are removed. A tag in use then stays. */
const SPARE_TAGS_MS = 24 * 60 * 60_000;

/**
 * Returns the tags that only a retired bundle gave to stickpin's images that stay pinned. Each
 * image keeps a tag of a kept bundle, since CRI-O deletes an image with its last name, and does not
 * show the stored names by digest (docs/runtime-facts.md, facts 8 and 10). Uses of the tags are not
 * considered.
 */
export function spareTagsIn(
  now: number,
  { images, ids, stored, policy: { streams }, unclaimed = [] }: RemovalContext,
): (bundle: StoredBundle) => readonly string[] {
  const { bundles, pulledByUs = new Set() } = stored;
  const isLate = (bundle: StoredBundle) =>
    isRetired(bundle) &&
    bundle.removeImages === true &&
    bundle.activatedAt !== undefined &&
    Math.abs(now - (bundle.retiredAt ?? 0)) < SPARE_TAGS_MS;
  if (!bundles.some(isLate)) return () => [];
  const namesItsImage = ({ tag, reference }: TagGoal) => ids.of(tag) === ids.of(reference) && ids.of(tag) !== undefined;
  const kept = keptBundles(bundles).flatMap(tagGoalsOf).filter(namesItsImage);
  const needed = new Set(kept.map(({ tag }) => ids.of(tag)));
  const others = new Set(unclaimed.map((reference) => ids.of(reference)));
  const named = namesOf(bundles.filter((other) => !isRetired(other) || other.removeImages !== true)).tags;
  const claimed = new Set([...named, ...proofGoals(bundles, streams).map(({ tag }) => tag)]);
  const pulled = idsPulledByUs(bundles, ids, pulledByUs);
  const staying = images.filter(
    ({ imageId, pinned }) => pinned && needed.has(imageId) && !others.has(imageId) && pulled.has(imageId),
  );
  const stayingIds = new Set<string | undefined>(staying.map(({ imageId }) => imageId));
  return (bundle) => {
    if (!isLate(bundle)) return [];
    const afterProof = bundle.provenAt === undefined ? [] : goalsAfterProof(bundle, streams);
    return [...tagGoalsOf(bundle), ...afterProof]
      .filter((goal) => namesItsImage(goal) && stayingIds.has(ids.of(goal.tag)) && !claimed.has(goal.tag))
      .map(({ tag }) => tag);
  };
}

/** The kubelet has started its pods by then after a boot. */
const PODS_STARTED_MS = 15 * 60_000;

/**
 * Leaves out the tags from which static pods or containers, running or not, are made: the kubelet
 * would pull them again. Names without a registry may mean any. Empty while names are unknown, or
 * pods may not have started after a boot.
 */
export function withoutUses(
  tags: readonly string[],
  { imageUses, boot }: Pick<Observed, 'imageUses' | 'boot'>,
): readonly string[] {
  const isKnown = imageUses?.isComplete === true && imageUses.faults.length === 0;
  return isKnown && boot.uptimeMs >= PODS_STARTED_MS ? withoutNames(tags, imageUses.uses) : [];
}

export function withoutNames(tags: readonly string[], uses: readonly Pick<ImageUse, 'image'>[]): readonly string[] {
  if (uses.some(({ image }) => image === '')) return [];
  const used = new Set(uses.map(({ image }) => shortName(image)));
  return tags.filter((tag) => !used.has(shortName(tag)));
}

/** Like {@link withoutUses}, with the listed containers. Empty while tags are moved. */
export function withoutPodImages(
  tags: readonly string[],
  { observed, memory: { running }, containers }: ContainerView,
): readonly string[] {
  if (running.some(({ kind }) => kind === 'activate' || kind === 'restore-tags')) return [];
  // The runtime reports the image of a volume by its id.
  if (containers.some(({ volumeImages }) => volumeImages !== undefined)) return [];
  const unused = withoutUses(tags, observed);
  return withoutNames(
    unused,
    containers.map(({ podImage = '' }) => ({ image: podImage })),
  );
}

/** Returns `etcd:v3.5` for `quay.io/coreos/etcd:v3.5@sha256:…`. */
function shortName(name: string): string {
  const last = name.replace(/@.*$/, '').replace(/^.*\//, '');
  return last.includes(':') ? last : `${last}:latest`;
}

/**
 * Leaves out images in use, also by a container that may be started again. Empty while containers
 * or their volumes are not known.
 */
export function withoutUsed(
  imageIds: readonly string[],
  containers: readonly RuntimeContainer[] | undefined,
  ids: ImageIds,
): readonly Removal[] {
  if (containers === undefined || containers.some(({ volumeImages }) => volumeImages === 'unknown')) return [];
  const used = containers.map((container) => ({ ...container, uses: usedIds(container, ids) }));
  return imageIds.flatMap((imageId) => {
    const users = used.filter(({ uses }) => uses.has(imageId));
    if (users.some(({ state, isStartable }) => state !== 'exited' || isStartable === true)) return [];
    return [{ imageId, containerIds: users.map((container) => container.containerId) }];
  });
}

function usedIds(container: RuntimeContainer, ids: ImageIds): ReadonlySet<string | undefined> {
  const { volumeImages = [] } = container;
  const volumes = volumeImages === 'unknown' ? [] : volumeImages;
  return new Set([imageIdOf(container, ids), ...volumes.map((name) => ids.of(name))]);
}

/** Returns images that stickpin pulled. An image that was present before is foreign. */
function idsPulledByUs(
  bundles: readonly StoredBundle[],
  ids: ImageIds,
  pulledByUs: ReadonlySet<string>,
): ReadonlySet<string> {
  const all = new Map<string, boolean>();
  for (const { contents } of bundles) {
    for (const { reference } of allIn(contents)) {
      const imageId = ids.of(reference);
      if (imageId !== undefined) all.set(imageId, all.get(imageId) !== false && pulledByUs.has(reference));
    }
  }
  return new Set([...all].flatMap(([imageId, isOurs]) => (isOurs ? [imageId] : [])));
}

function namesOf(bundles: readonly StoredBundle[]) {
  const images = bundles.flatMap(({ contents }) => allIn(contents));
  const tags = new Set(images.flatMap((image) => image.tags));
  const repositories = new Set([
    ...images.map((image) => repositoryOf(image.reference)),
    ...[...tags].map(repositoryOf),
  ]);
  return { tags, repositories };
}

interface IncompleteContext {
  readonly observed: Pick<
    Observed,
    'now' | 'boot' | 'media' | 'runtime' | 'facts' | 'clockSynchronised' | 'localBlobs'
  >;
  readonly memory: Pick<Memory, 'running' | 'lastCarriers'>;
  readonly bundles: readonly StoredBundle[];
  readonly policy: { readonly retention: Pick<Policy['retention'], 'incomplete'> } & Pick<Policy, 'lifecycle'>;
}

/**
 * Returns releases that were incomplete for `retention.incomplete` since their adoption. Those on a
 * plugged medium and of a stream with a wrong clock stay, as do all while the runtime does not
 * answer. The wall clock may be set meanwhile, so the uptime since the medium left counts too.
 */
export function incompleteReleases({ observed, memory, bundles, policy }: IncompleteContext): readonly BundleId[] {
  const { incomplete } = policy.retention;
  const { now, boot, media, runtime, facts, clockSynchronised, localBlobs } = observed;
  if (incomplete === 'keep' || runtime.kind !== 'reachable') return [];
  const atHand = new Set(
    media.flatMap(({ state }) => {
      const found = state.kind === 'read' ? state.bundles : [];
      return found.flatMap((one) => (one.kind === 'verified' ? [one.bundle.bundleId] : []));
    }),
  );
  const areMediaUnread = media.some(({ state }) => state.kind === 'attached' || state.kind === 'mounted');
  if (areMediaUnread) return [];
  const present = new Set(usableImages(runtime.images).flatMap(({ repoDigests }) => repoDigests));
  const busy = new Set(memory.running.map(({ bundleId }) => bundleId));
  const leftFor = ({ bundleId }: StoredBundle) =>
    boot.uptimeMs - (memory.lastCarriers.get(bundleId)?.seenMs ?? Number.NEGATIVE_INFINITY);
  return bundles
    .filter(({ adoptedAt, readyAt }) => readyAt === undefined && now - adoptedAt >= incomplete)
    .filter((bundle) => leftFor(bundle) >= incomplete)
    .filter(({ bundleId }) => !atHand.has(bundleId) && !busy.has(bundleId))
    .filter((bundle) => !isRetired(bundle) && !isWanted(bundle) && bundle.activatedAt === undefined)
    .filter((bundle) => !isProtected(bundle, policy.lifecycle) && !isBaseInNeed(bundle, bundles))
    .filter(
      (bundle) =>
        bundle.contents.images.some(({ reference }) => !present.has(reference)) ||
        absentArtifacts(bundle, localBlobs).length > 0,
    )
    .filter((bundle) => streamClockFault(bundle, { bundles, now, facts, clockSynchronised }) === undefined)
    .map(({ bundleId }) => bundleId);
}

/** The reason why an activated release that is not the current one is still pinned. */
export type KeptWhy =
  | { readonly kind: 'protected' }
  | { readonly kind: 'wanted' }
  | { readonly kind: 'base' }
  | { readonly kind: 'last-good'; readonly current: StoredBundle }
  | { readonly kind: 'fallback'; readonly keep: number }
  | { readonly kind: 'unproven'; readonly current: StoredBundle; readonly isRolledBack: boolean }
  /** The release is retired once no container runs from it. */
  | { readonly kind: 'surplus' }
  /** `good` lacks images, pins, or a check after an unclean boot. */
  | { readonly kind: 'not-whole'; readonly good: StoredBundle };

/** Excludes streams without a current release. */
export function whyKept(
  bundles: readonly StoredBundle[],
  whole: Whole,
  policy: Policy['lifecycle'],
): ReadonlyMap<BundleId, KeptWhy> {
  const surplus = new Set(surplusBundles(bundles, policy));
  const found = new Map<BundleId, KeptWhy>();
  for (const bundle of keptBundles(bundles)) {
    const current = currentRelease(bundles, bundle.payload.name);
    if (bundle.activatedAt === undefined || current === undefined || current === bundle) continue;
    found.set(bundle.bundleId, whyOf(bundle, current));
  }
  return found;

  function whyOf(bundle: StoredBundle, current: StoredBundle): KeptWhy {
    if (isProtected(bundle, policy)) return { kind: 'protected' };
    const good = lastProven(bundles, bundle.payload.name);
    if (surplus.has(bundle)) {
      return good === undefined || whole.has(good.bundleId) ? { kind: 'surplus' } : { kind: 'not-whole', good };
    }
    if (isWanted(bundle)) return { kind: 'wanted' };
    if (isBaseInNeed(bundle, bundles)) return { kind: 'base' };
    if (bundle.provenAt === undefined) return { kind: 'unproven', current, isRolledBack: isRolledBack(bundle) };
    return good === bundle && !isProven(current)
      ? { kind: 'last-good', current }
      : { kind: 'fallback', keep: policy.keep };
  }
}
