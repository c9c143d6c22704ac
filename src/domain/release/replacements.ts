import type { RuntimeContainer, RuntimeImage } from '../model/image.ts';
import { parseReference, repositoryOf } from '../model/reference.ts';
import { compareVersions, isVersion } from '../model/version.ts';
import type { LifecycleFinding } from '../state/effect.ts';
import type { Stored, StoredBundle } from '../state/state.ts';
import { type ContainerView, imageIdOf } from './evidence.ts';
import { isRolledBack, keptBundles } from './recorded-phase.ts';
import { withoutNames, withoutUsed, withoutUses } from './retention.ts';
import { nodeImages, type ProofGoal, tagGoalsOf } from './tag-goals.ts';

/** This release was proven last, and is whole. */
interface Proven {
  readonly bundle: StoredBundle;
  /** Repositories in which all its tags after the proof name its images. */
  readonly repositories: ReadonlySet<string>;
  /** Repositories in which it gets tags after its proof. */
  readonly wanted: ReadonlySet<string>;
}

/** Returns objects that block units, or are no longer needed, after the tags have moved. */
export function replacements(view: ContainerView, afterProof: readonly ProofGoal[]): LifecycleFinding[] {
  const { observed, stored, ids, whole } = view;
  const { runtime } = observed;
  if (runtime.kind !== 'reachable') return [];
  const isMet = ({ tag, reference }: ProofGoal) => ids.of(tag) !== undefined && ids.of(tag) === ids.of(reference);
  return stored.bundles.flatMap((bundle): LifecycleFinding[] => {
    const goals = afterProof.filter(({ bundleId }) => bundleId === bundle.bundleId);
    if (goals.length === 0 || !whole.has(bundle.bundleId)) return [];
    const wanted = new Set(goals.map(({ tag }) => repositoryOf(tag)));
    const behind = new Set(goals.filter((goal) => !isMet(goal)).map(({ tag }) => repositoryOf(tag)));
    const proven = { bundle, wanted, repositories: new Set([...wanted].filter((one) => !behind.has(one))) };
    return [...replacedContainers(proven, runtime.images, view), ...replacedImages(proven, runtime.images, view)];
  });
}

/**
 * Returns stopped containers of `replace_stopped` that were made from another image of the same
 * repository: of an older release, of one that was rolled back, or of the node itself. Releases
 * that were activated since or never, and those of another stream, are left out.
 */
function replacedContainers(
  { bundle, repositories, wanted }: Proven,
  images: readonly RuntimeImage[],
  { stored, policy, containers, ids }: ContainerView,
): LifecycleFinding[] {
  const { bundleId, payload, provenAt = 0 } = bundle;
  const names = new Set(policy.streams[payload.name]?.replace_stopped);
  const others = keptBundles(stored.bundles).filter(
    (other) =>
      other.payload.name !== payload.name ||
      (!isRolledBack(other) && (other.activatedAt ?? Number.POSITIVE_INFINITY) >= provenAt),
  );
  const kept = new Set(
    [bundle, ...others].flatMap(({ contents }) => contents.images.map(({ reference }) => ids.of(reference))),
  );
  const stopped = containers.filter((container) => {
    const id = imageIdOf(container, ids) ?? container.imageNames[0];
    if (container.state !== 'exited' || !names.has(container.key) || id === undefined || kept.has(id)) return false;
    const image = images.find(({ imageId }) => imageId === id);
    // The image may be that of a kept release which the runtime does not list now.
    if (image === undefined && kept.has(undefined)) return false;
    const used = repositoriesOfContainer(container, image).filter((repository) => wanted.has(repository));
    return used.length > 0 && used.every((repository) => repositories.has(repository));
  });
  if (stopped.length === 0) return [];
  const found = stopped.map(({ containerId, key }) => ({ containerId, name: key }));
  return [{ kind: 'removable', bundleId, images: [], stopped: found }];
}

/** The image may have lost all names since. */
function repositoriesOfContainer({ podImage }: RuntimeContainer, image: RuntimeImage | undefined): readonly string[] {
  const names = [
    ...(image?.repoTags ?? []),
    ...(image?.repoDigests ?? []),
    ...(podImage === undefined ? [] : [podImage]),
  ];
  return [...new Set(names.map(repositoryOf))];
}

/**
 * With `local_images = "retire"` it returns images of the node itself in these repositories, under
 * versions that no kept release names. `lifecycle.keep` limits the older versions that stay as the
 * fallback. Newer ones are removed at once, since all nodes went back from them. An image that any
 * container or static pod uses or names stays: the kubelet could not get it again.
 */
function replacedImages(
  { bundle, repositories }: Proven,
  images: readonly RuntimeImage[],
  view: ContainerView,
): LifecycleFinding[] {
  const { stored, policy, containers, ids } = view;
  const { bundleId, payload } = bundle;
  if (policy.streams[payload.name]?.local_images !== 'retire' || !policy.lifecycle.remove_images) return [];
  const old = oldOfNode(images, stored);
  const proven = keptBundles(stored.bundles).filter(
    (one) => one.payload.name === payload.name && one.provenAt !== undefined && !isRolledBack(one),
  );
  const ownTags = tagGoalsOf(bundle).map(({ tag }) => tag);
  const gone = [...repositories].flatMap((repository) => {
    const ownTag = ownTags.find((tag) => repositoryOf(tag) === repository);
    const ownVersion = withoutV(tagOf(ownTag) ?? payload.version);
    const versions = old
      .filter(({ repoTags: [tag = ''] }) => repositoryOf(tag) === repository)
      .map((image) => ({ image, version: withoutV(tagOf(image.repoTags[0]) ?? '') }))
      .sort((a, b) => compareVersions(b.version, a.version));
    const older = versions.filter(({ version }) => compareVersions(version, ownVersion) < 0);
    const fallback = older.slice(0, Math.max(0, policy.lifecycle.keep - proven.length));
    return versions.filter((one) => !fallback.includes(one) && isUnnamed(one.image, view));
  });
  const imageIds = [...new Set(gone.map(({ image }) => image.imageId))];
  const removals = withoutUsed(imageIds, containers, ids).filter(({ containerIds }) => containerIds.length === 0);
  return removals.length === 0 ? [] : [{ kind: 'removable', bundleId, images: removals, areOfNode: true }];
}

/** Returns images of the node, each in one repository, under versions that no release names. */
export function oldOfNode(images: readonly RuntimeImage[], stored: Stored): readonly RuntimeImage[] {
  const claimed = new Set(
    keptBundles(stored.bundles)
      .flatMap(tagGoalsOf)
      .map(({ tag }) => tag),
  );
  return nodeImages(images, stored)
    .filter(({ pinned, repoTags }) => !pinned && repoTags.length > 0 && !repoTags.some((tag) => claimed.has(tag)))
    .filter(({ repoTags, repoDigests }) => new Set([...repoTags, ...repoDigests].map(repositoryOf)).size === 1)
    .filter(({ repoTags }) => repoTags.every((tag) => isNumbered(tagOf(tag) ?? '')));
}

function tagOf(name: string | undefined): string | undefined {
  return name === undefined ? undefined : parseReference(name).tag;
}

/** No static pod and no container has any of its names. A container may lack names by tag. */
function isUnnamed({ imageId, repoTags }: RuntimeImage, { observed, containers, ids }: ContainerView): boolean {
  const unused = withoutUses(repoTags, observed);
  const uses = observed.imageUses?.uses ?? [];
  if (unused.length < repoTags.length || uses.some(({ image }) => ids.of(image) === imageId)) return false;
  return areUnnamed(repoTags, containers);
}

/** No container was made by one of these names. */
export function areUnnamed(tags: readonly string[], containers: readonly RuntimeContainer[]): boolean {
  const named = containers.flatMap(({ podImage }) => (podImage === undefined ? [] : [{ image: podImage }]));
  return withoutNames(tags, named).length === tags.length;
}

/** A branch such as `master.435` and a word such as `backup-2024` have no known order. */
function isNumbered(tag: string): boolean {
  return isVersion(tag) && /^v?\d/.test(tag);
}

function withoutV(version: string): string {
  return version.replace(/^v(?=\d)/, '');
}
