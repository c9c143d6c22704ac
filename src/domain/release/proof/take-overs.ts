import type { Policy } from '../../settings/settings.ts';
import type { Stored } from '../../state/state.ts';
import type { LifecycleFinding } from '../lifecycle-finding.ts';
import { isRolledBack, isTwin, keptBundles, unprovenReleases, wasActive } from '../recorded-phase.ts';
import { isProtected } from '../retention.ts';

/**
 * Same images, new metadata: nothing distinguishes the two, so it continues in the state of the
 * other one.
 */
export function takeOvers(stored: Stored, policy: Policy): LifecycleFinding[] {
  return unprovenReleases(stored)
    .filter((bundle) => !wasActive(bundle))
    .flatMap((bundle): LifecycleFinding[] => {
      const twin = keptBundles(stored.bundles).find(
        (other) =>
          other.payload.name === bundle.payload.name &&
          isTwin(bundle, other) &&
          !isRolledBack(other) &&
          (other.provenAt !== undefined || wasActive(other)),
      );
      return twin === undefined
        ? []
        : [
            {
              kind: 'same-images',
              bundleId: bundle.bundleId,
              twin: twin.bundleId,
              isTwinProtected: isProtected(twin, policy.lifecycle),
            },
          ];
    });
}
