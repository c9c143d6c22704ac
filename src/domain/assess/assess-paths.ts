import { withdrawalOf } from '../adoption/trust-withdrawal.ts';
import type { Adoption } from '../adoption/unknown-bundles.ts';
import { readPaths, type StreamPaths } from '../path/read-paths.ts';
import { runningReleases } from '../release/running-releases.ts';
import type { Policy } from '../settings/settings.ts';
import { approvalsIn, type Observed, type Stored } from '../state/state.ts';
import { isRelease } from '../trust/notice.ts';

/**
 * The paths of all streams as they are in this round: of adopted releases and of those that are
 * about to be adopted, by what the bundles say that are trusted now.
 */
export function assessPaths(
  observed: Observed,
  stored: Stored,
  adoptions: readonly Adoption[],
  policy: Policy,
): StreamPaths {
  const { runtime, containers, now } = observed;
  const { bundles } = stored;
  const arriving = adoptions.map(({ found }) => found.bundle);
  const approvals = approvalsIn(stored, policy);
  const trusted = bundles.filter((bundle) => withdrawalOf(bundle, observed, approvals) === undefined);
  const seen = runtime.kind === 'reachable' && containers ? { images: runtime.images, containers } : undefined;
  return readPaths({
    releases: bundles.filter(isRelease),
    arriving: arriving.filter(isRelease),
    speakers: [...trusted, ...arriving],
    running: seen && runningReleases(bundles, seen),
    policy,
    now,
  });
}
