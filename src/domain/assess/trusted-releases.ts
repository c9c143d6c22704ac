import type { StoredBundle } from '../state/state.ts';
import type { BundleAssessment } from './assess-bundle.ts';

/** The adopted releases that are trusted now, in the order of adoption. */
export function trustedReleases({
  bundles,
}: {
  readonly bundles: readonly BundleAssessment[];
}): readonly StoredBundle[] {
  return bundles.filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
}
