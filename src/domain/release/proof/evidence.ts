import type { Image } from '../../model/bundle.ts';
import type { RuntimeContainer, RuntimeImage } from '../../model/image.ts';
import { repositoryOf } from '../../model/reference.ts';
import type { Policy } from '../../settings/settings.ts';
import type { Memory } from '../../state/memory.ts';
import type { Observed, Stored, StoredBundle } from '../../state/state.ts';
import { isTwin, keptBundles } from '../recorded-phase.ts';
import type { Witness } from '../soak.ts';

/** A tag counts for what it names now. */
export interface ImageIds {
  of(name: string): string | undefined;
}

/** Runtimes report ids with or without `sha256:` in front. */
export function imageIds(images: readonly RuntimeImage[]): ImageIds {
  const byName = new Map<string, string>();
  for (const { imageId, repoTags, repoDigests } of images) {
    for (const name of [bare(imageId), ...repoTags, ...repoDigests]) byName.set(name, imageId);
  }
  return { of: (name) => byName.get(bare(name)) };
}

function bare(name: string): string {
  return name.startsWith('sha256:') ? name.slice('sha256:'.length) : name;
}

export function imageIdOf(container: RuntimeContainer, ids: ImageIds): string | undefined {
  for (const name of container.imageNames) {
    const id = ids.of(name);
    if (id !== undefined) return id;
  }
  return undefined;
}

/** Its component, else its repository if that is unique, else its reference. */
function componentOf(image: Image, images: readonly Image[]): string {
  if (image.component !== undefined) return image.component;
  const repository = repositoryOf(image.reference);
  const isAlone = images.every((other) => other === image || repositoryOf(other.reference) !== repository);
  return isAlone ? repository : image.reference;
}

export function componentNames({ contents }: StoredBundle): ReadonlySet<string> {
  return new Set(contents.images.map((image) => componentOf(image, contents.images)));
}

export function componentsById({ contents }: StoredBundle, ids: ImageIds): ReadonlyMap<string, string> {
  return new Map(
    contents.images.flatMap((image) => {
      const id = ids.of(image.reference);
      return id === undefined ? [] : [[id, componentOf(image, contents.images)] as const];
    }),
  );
}

/** Bundles with exactly the same images don't count as others. */
export function distinguishingIds(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  ids: ImageIds,
): ReadonlySet<string> {
  const others = keptBundles(bundles).filter(
    (other) => other.bundleId !== bundle.bundleId && other.activatedAt !== undefined && !isTwin(bundle, other),
  );
  const shared = new Set(
    others.flatMap(({ contents }) => contents.images.flatMap(({ reference }) => [reference, ids.of(reference) ?? ''])),
  );
  const own = bundle.contents.images.flatMap(({ reference }) => {
    const id = ids.of(reference);
    return id === undefined || shared.has(reference) || shared.has(id) ? [] : [id];
  });
  return new Set(own);
}

/** The containers of its distinguishing images, and those of required components. */
export function witnessesOf(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
  { containers, ids }: { readonly containers: readonly RuntimeContainer[]; readonly ids: ImageIds },
  { require, ignore }: Pick<Policy['lifecycle'], 'require' | 'ignore'>,
): readonly Witness[] {
  const components = componentsById(bundle, ids);
  const distinguishing = distinguishingIds(bundle, bundles, ids);
  return containers.flatMap((container) => {
    const id = imageIdOf(container, ids);
    const component = id === undefined ? undefined : components.get(id);
    if (id === undefined || component === undefined || ignore.includes(component)) return [];
    const counts = distinguishing.has(id);
    return counts || require.includes(component) ? [{ component, counts, container }] : [];
  });
}

export interface ContainerView {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly containers: readonly RuntimeContainer[];
  readonly ids: ImageIds;
  /** Pinned references that belong to no known release. */
  readonly unclaimed: readonly string[];
}
