import { repositoryOf } from '../../model/reference.ts';
import type { StoredBundle } from '../../state/state.ts';
import { commandName, keptBundles } from '../recorded-phase.ts';
import { tagGoalsOf, tagOwners } from '../tags.ts';

/** The names by which the activated releases provide images. */
export interface ProvidedNames {
  /** Tags that our registry answers by the image of a release: `quay.io/coreos/etcd:v3.5`. */
  readonly tags: ReadonlySet<string>;
  /** Digests of activated and fallback releases: `quay.io/coreos/etcd@sha256:…`. */
  readonly digests: ReadonlySet<string>;
  /** Further tags, that a kept release provides once it is activated: by tag, as `ocp@4.13.7`. */
  readonly later: ReadonlyMap<string, string>;
}

/** What else decides about names than the records of the releases. */
export interface NameConditions {
  /** Tags that are left to whoever takes them, so that no release provides them. */
  readonly contested?: readonly string[];
  /** Tags that are being set. */
  readonly inWork?: readonly string[];
  /** Releases that are not trusted any more: they provide nothing. */
  readonly withdrawn?: ReadonlySet<StoredBundle>;
}

/** The names of the images of all activated releases that were not retired since. */
export function providedNames(
  bundles: readonly StoredBundle[],
  { contested = [], inWork = [], withdrawn = new Set() }: NameConditions = {},
): ProvidedNames {
  const tags = new Set(tagOwners(bundles, withdrawn).keys());
  for (const tag of contested) tags.delete(tag);
  for (const tag of inWork) tags.add(tag);
  const kept = keptBundles(bundles).filter((bundle) => !withdrawn.has(bundle));
  const images = kept.filter(({ activatedAt }) => activatedAt !== undefined).flatMap(({ contents }) => contents.images);
  const further = kept.flatMap((bundle) =>
    tagGoalsOf(bundle).flatMap(({ tag }) => (tags.has(tag) ? [] : [[tag, commandName(bundle, bundles)] as const])),
  );
  return {
    tags,
    digests: new Set(images.map(({ reference, digest }) => `${repositoryOf(reference)}@${digest}`)),
    later: new Map(further),
  };
}

/** The names after the activation of `bundle`, which has not happened yet. */
export function namesOnceActivated(bundle: StoredBundle, bundles: readonly StoredBundle[]): ProvidedNames {
  const { retiredAt, rolledBackAt, ...rest } = bundle;
  const latest = Math.max(retiredAt ?? 0, rolledBackAt ?? 0, ...bundles.map((other) => other.activatedAt ?? 0));
  const activated: StoredBundle = { ...rest, activatedAt: latest + 1 };
  return providedNames(bundles.map((other) => (other.bundleId === bundle.bundleId ? activated : other)));
}
