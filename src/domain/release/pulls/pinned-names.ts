import type { RuntimeObservation } from '../../model/image.ts';
import { mirrorPathOf, repositoryOf } from '../../model/reference.ts';
import type { StoredBundle } from '../../state/state.ts';
import { keptBundles } from '../recorded-phase.ts';

/**
 * The names by which a runtime asks our registry for images whose pins it would lose by that pull:
 * `PATH@sha256:…` and `PATH:TAG`, with the mirror path of the repository. Empty for a runtime that
 * keeps pins.
 */
export function pinnedNames(runtime: RuntimeObservation, bundles: readonly StoredBundle[]): ReadonlySet<string> {
  if (runtime.kind !== 'reachable' || runtime.arePinsLostByPulls !== true) return new Set();
  const pinned = keptBundles(bundles).flatMap(({ contents }) => contents.images.filter((image) => image.pin));
  return new Set(
    pinned.flatMap(({ reference, digest, tags }) => [
      `${mirrorPathOf(repositoryOf(reference))}@${digest}`,
      ...tags.map((tag) => `${mirrorPathOf(repositoryOf(tag))}${tag.slice(repositoryOf(tag).length)}`),
    ]),
  );
}
