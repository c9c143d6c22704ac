import { repositoryOf } from '../../model/reference.ts';
import type { StoredBundle } from '../../state/state.ts';
import { isRetired } from '../recorded-phase.ts';
import { tagOwners } from '../tags.ts';

/** The names by which the activated releases provide images. */
export interface ProvidedNames {
  /** Tags that a release holds: `quay.io/coreos/etcd:v3.5`. */
  readonly tags: ReadonlySet<string>;
  /** Digests of activated and fallback releases: `quay.io/coreos/etcd@sha256:…`. */
  readonly digests: ReadonlySet<string>;
}

/**
 * The names of the images of all activated releases that were not retired since. `contested`: tags
 * that are left to whoever takes them, so that no release provides them.
 */
export function providedNames(bundles: readonly StoredBundle[], contested: readonly string[]): ProvidedNames {
  const tags = new Set(tagOwners(bundles).keys());
  for (const tag of contested) tags.delete(tag);
  const kept = bundles.filter((bundle) => bundle.activatedAt !== undefined && !isRetired(bundle));
  const images = kept.flatMap(({ contents }) => contents.images);
  return { tags, digests: new Set(images.map(({ reference, digest }) => `${repositoryOf(reference)}@${digest}`)) };
}

/** The names after the activation of `bundle`, which has not happened yet. */
export function namesOnceActivated(bundle: StoredBundle, bundles: readonly StoredBundle[]): ProvidedNames {
  const { retiredAt, rolledBackAt, ...rest } = bundle;
  const latest = Math.max(retiredAt ?? 0, rolledBackAt ?? 0, ...bundles.map((other) => other.activatedAt ?? 0));
  const activated: StoredBundle = { ...rest, activatedAt: latest + 1 };
  return providedNames(
    bundles.map((other) => (other.bundleId === bundle.bundleId ? activated : other)),
    [],
  );
}
