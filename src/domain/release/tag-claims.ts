import type { BundleId, Digest } from '../model/digest.ts';
import { repositoryOf } from '../model/reference.ts';
import type { StoredBundle } from '../state/state.ts';
import { hasBegun, isRetired } from './recorded-phase.ts';

/** A tag that a release wants and a release of another stream holds for another image. */
export interface TagConflict {
  readonly tag: string;
  readonly holder: StoredBundle;
}

/**
 * The first tag of a release that a release of another stream holds for another digest. A release
 * holds its tags from the begin of its activation until it is retired, even if it was rolled back
 * or superseded: the way back to it must stay open.
 */
export function foreignTag(bundle: StoredBundle, bundles: readonly StoredBundle[]): TagConflict | undefined {
  const holders = bundles.filter((other) => other.payload.name !== bundle.payload.name && holdsAgainst(other, bundle));
  if (holders.length === 0) return undefined;
  const wanted = tagsOf(bundle);
  for (const holder of holders) {
    for (const [tag, digest] of tagsOf(holder)) {
      const own = wanted.get(tag);
      if (own !== undefined && own !== digest) return { tag, holder };
    }
  }
  return undefined;
}

/** Of two begun activations the first one continues: neither waits for the other. */
function holdsAgainst(holder: StoredBundle, other: StoredBundle): boolean {
  if (isRetired(holder)) return false;
  if (holder.activatedAt !== undefined) return true;
  if (!hasBegun(holder)) return false;
  if (!hasBegun(other)) return true;
  return order(holder) < order(other) || (order(holder) === order(other) && holder.bundleId < other.bundleId);
}

function order({ activationBegunAt = 0 }: StoredBundle): number {
  return activationBegunAt;
}

/** With the tags that are attached to its images. */
function tagsOf({ contents }: StoredBundle): ReadonlyMap<string, Digest> {
  const tags = new Map<string, Digest>();
  for (const { reference, digest, tags: own, attached = [] } of contents.images) {
    for (const { tag, digest: document } of attached) tags.set(`${repositoryOf(reference)}:${tag}`, document);
    for (const tag of own) tags.set(tag, digest);
  }
  return tags;
}

/** Of several streams the first adopted one decides. `bundles`: in the order of adoption. */
export function attachedOwners(bundles: readonly StoredBundle[]): ReadonlyMap<string, BundleId> {
  const owners = new Map<string, { readonly stream: string; readonly bundleId: BundleId }>();
  for (const { bundleId, payload, contents } of bundles) {
    for (const { reference, attached = [] } of contents.images) {
      for (const { tag } of attached) {
        const name = `${repositoryOf(reference)}:${tag}`;
        const owner = owners.get(name);
        if (owner === undefined || owner.stream === payload.name) owners.set(name, { stream: payload.name, bundleId });
      }
    }
  }
  return new Map([...owners].map(([name, { bundleId }]) => [name, bundleId]));
}
