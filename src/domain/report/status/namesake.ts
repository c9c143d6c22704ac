import { sentence } from '../../../platform/plain-text.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { StoredBundle } from '../../state/state.ts';

type Entries = readonly Pick<BundleAssessment, 'bundle' | 'phase'>[];

/** Whether another bundle that is kept has the same name and version. */
function hasNamesake({ bundleId, payload }: StoredBundle, bundles: Entries): boolean {
  return bundles.some(
    ({ bundle, phase }) =>
      bundle.bundleId !== bundleId && phase !== 'retired' && bundleName(bundle.payload) === bundleName(payload),
  );
}

/**
 * As {@link bundleTitle}, with the digest in short where the title alone could mean another bundle
 * that is kept.
 */
export function titleAmong(bundle: StoredBundle, bundles: Entries): string {
  const title = bundleTitle(bundle.payload);
  return hasNamesake(bundle, bundles) ? `${title} (${shortDigest(bundle.bundleId)})` : title;
}

/**
 * What a command takes for this bundle and no other: its name, or its digest where another one has
 * that name.
 */
export function commandNameAmong(bundle: StoredBundle, bundles: Entries): string {
  return hasNamesake(bundle, bundles) ? bundle.bundleId : bundleName(bundle.payload);
}

/**
 * A message that speaks of the bundle by its title, with the digest in short added where that is
 * not enough.
 */
export function messageAmong(message: string, bundle: StoredBundle, bundles: Entries): string {
  return hasNamesake(bundle, bundles)
    ? `${sentence(message)} This is bundle ${shortDigest(bundle.bundleId)}.`
    : message;
}
