import { allIn, type Image } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { RuntimeImage } from '../model/image.ts';
import { repositoryOf } from '../model/reference.ts';
import type { Policy } from '../settings/settings.ts';
import type { Stored, StoredBundle } from '../state/state.ts';
import { keptBundles } from './recorded-phase.ts';

export interface TagGoal {
  readonly tag: string;
  readonly reference: string;
  readonly digest: Digest;
}

export function tagGoalsOf({ contents }: Pick<StoredBundle, 'contents'>): readonly TagGoal[] {
  return goalsOf(contents.images);
}

/** Only the registry has these tags. */
export function artifactTagsOf({ contents }: Pick<StoredBundle, 'contents'>): readonly TagGoal[] {
  return goalsOf(contents.artifacts ?? []);
}

function goalsOf(all: readonly Pick<Image, 'reference' | 'digest' | 'tags'>[]): readonly TagGoal[] {
  return all.flatMap(({ reference, digest, tags }) => tags.map((tag) => ({ tag, reference, digest })));
}

/** A tag of `streams.NAME.tag_after_proof`. */
export interface ProofGoal extends TagGoal {
  readonly bundleId: BundleId;
  /** When it was proven, or activated since, in milliseconds since the epoch. */
  readonly provenAt: number;
}

type Streams = Policy['streams'];

/**
 * Returns the tags that the last proven release of each stream gets. A tag that a kept release of
 * any stream names itself is left out, since it moves when that release is activated. If two
 * streams want the same tag, the first stream gets it.
 */
export function proofGoals(bundles: readonly StoredBundle[], streams: Streams): readonly ProofGoal[] {
  const kept = keptBundles(bundles);
  const named = new Set(kept.flatMap(({ contents }) => allIn(contents).flatMap(({ tags }) => tags)));
  // Retired releases count too, so that the order of the streams stays.
  const streamsInOrder = [...new Set(bundles.map(({ payload }) => payload.name))];
  const newest = new Map<string, { readonly bundle: StoredBundle; readonly provenAt: number }>();
  for (const bundle of kept) {
    const { payload, provenAt, rolledBackAt = -1 } = bundle;
    // A proof before a rollback does not count.
    if (provenAt === undefined || provenAt <= rolledBackAt) continue;
    if (provenAt >= (newest.get(payload.name)?.provenAt ?? 0)) newest.set(payload.name, { bundle, provenAt });
  }
  const goals = new Map<string, ProofGoal>();
  for (const { bundle, provenAt } of streamsInOrder.flatMap((stream) => newest.get(stream) ?? [])) {
    const { bundleId, activatedAt = 0 } = bundle;
    const since = Math.max(provenAt, activatedAt);
    for (const goal of goalsAfterProof(bundle, streams)) {
      if (!named.has(goal.tag) && !goals.has(goal.tag)) goals.set(goal.tag, { ...goal, bundleId, provenAt: since });
    }
  }
  return [...goals.values()];
}

/** Returns the tags that a release gets, or got, by its proof. */
export function goalsAfterProof(bundle: StoredBundle, streams: Streams): readonly TagGoal[] {
  const tags = streams[bundle.payload.name]?.tag_after_proof ?? [];
  if (tags.length === 0) return [];
  return [...imagesByRepository(bundle)].flatMap(([repository, [image, ...others]]) =>
    image === undefined || others.length > 0
      ? []
      : tags.map((tag) => ({ tag: `${repository}:${tag}`, reference: image.reference, digest: image.digest })),
  );
}

/** Returns repositories with several images: nobody knows which image would get the tag. */
export function sharedRepositories(bundle: StoredBundle, streams: Streams): readonly string[] {
  if ((streams[bundle.payload.name]?.tag_after_proof ?? []).length === 0) return [];
  return [...imagesByRepository(bundle)].flatMap(([repository, images]) => (images.length > 1 ? [repository] : []));
}

/** Its tags may be in other repositories. */
function repositoriesOf({ reference, tags }: Image): readonly string[] {
  return [...new Set([reference, ...tags].map(repositoryOf))];
}

function imagesByRepository({ contents }: StoredBundle): ReadonlyMap<string, readonly Image[]> {
  const found = new Map<string, Image[]>();
  for (const image of contents.images) {
    for (const repository of repositoriesOf(image)) {
      found.set(repository, [...(found.get(repository) ?? []), image]);
    }
  }
  return found;
}

/** The node itself has this image under a tag of a release. */
export interface LocalImage {
  /** The release's own image of that version. */
  readonly reference: string;
  readonly tag: string;
  /** The other tags of the release's image. */
  readonly others: readonly string[];
}

/**
 * In a stream with `tag_after_proof` a tag is a version. An image that the node has under it, and
 * that no release has, is the same version and may have run. It keeps the tag
 * (docs/decisions/tags.md, "Images of the node itself").
 */
export function localImages(
  bundle: StoredBundle,
  images: readonly RuntimeImage[],
  stored: Stored,
  streams: Streams,
): readonly LocalImage[] {
  if ((streams[bundle.payload.name]?.tag_after_proof ?? []).length === 0) return [];
  const names = new Set(nodeImages(images, stored).flatMap(({ repoTags }) => repoTags));
  return bundle.contents.images.flatMap(({ reference, tags }) => {
    const tag = tags.find((one) => names.has(one));
    return tag === undefined ? [] : [{ reference, tag, others: tags.filter((one) => one !== tag) }];
  });
}

/** Returns images that stickpin did not pull and that no release has. */
export function nodeImages(
  images: readonly RuntimeImage[],
  { bundles, pulledByUs = new Set() }: Stored,
): readonly RuntimeImage[] {
  const known = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ reference }) => reference)));
  return images.filter(({ repoDigests }) => !repoDigests.some((name) => known.has(name) || pulledByUs.has(name)));
}
