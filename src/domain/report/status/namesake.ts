import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { Reason } from '../../model/reason.ts';
import type { StoredBundle } from '../../state/state.ts';
import { briefTitle } from '../brief/brief-name.ts';
import { fitted, MAX_LINE_LENGTH } from '../brief/fitted.ts';
import { reasonWithin } from '../brief/reason-within.ts';

type Entries = readonly Pick<BundleAssessment, 'bundle' | 'phase'>[];

/** Whether another bundle that is kept has the same name and version. */
function hasNamesake({ bundleId, payload }: StoredBundle, bundles: Entries): boolean {
  return bundles.some(
    ({ bundle, phase }) =>
      bundle.bundleId !== bundleId && phase !== 'retired' && bundleName(bundle.payload) === bundleName(payload),
  );
}

/**
 * As {@link briefTitle}, with the digest in short where the title alone could mean another bundle
 * that is kept.
 */
export function titleAmong(bundle: StoredBundle, bundles: Entries): string {
  const title = briefTitle(bundle.payload);
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
 * A reason that speaks of the bundle by its title, with the digest in short added where that is not
 * enough.
 */
export function reasonAmong(reason: Reason, bundle: StoredBundle, bundles: Entries): string {
  if (!hasNamesake(bundle, bundles)) return reasonWithin(reason);
  const which = `This is bundle ${shortDigest(bundle.bundleId)}.`;
  return fitted([reasonWithin(reason, MAX_LINE_LENGTH - which.length - 2), which]);
}
