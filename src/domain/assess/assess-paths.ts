import { awaitsPerson, withdrawalOf } from '../adoption/trust-withdrawal.ts';
import type { Adoption } from '../adoption/unknown-bundles.ts';
import { readPaths, type StreamPaths } from '../path/read-paths.ts';
import { runningReleases } from '../release/running-releases.ts';
import type { Policy } from '../settings/settings.ts';
import { approvalsIn, type Observed, type Stored, type StoredBundle } from '../state/state.ts';
import { isRelease } from '../trust/notice.ts';

/**
 * The paths of all streams as they are in this round: of adopted releases and of those that are
 * about to be adopted, by what the bundles say that are trusted now. What a release says of itself,
 * that it is a barrier or a dead end, counts also while a person rejects it: who keeps a node from
 * a release does not send it past its barrier.
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
  const isTrusted = (bundle: StoredBundle) => withdrawalOf(bundle, observed, approvals) === undefined;
  const trusted = bundles.filter(isTrusted);
  const withdrawn = bundles.filter((bundle) => !isTrusted(bundle));
  const rejected = withdrawn.filter((bundle) => isRelease(bundle) && awaitsPerson(bundle, observed, approvals));
  const seen = runtime.kind === 'reachable' && containers ? { images: runtime.images, containers } : undefined;
  return readPaths({
    releases: bundles.filter(isRelease),
    arriving: arriving.filter(isRelease),
    speakers: [...trusted.map(asSpeaker), ...rejected.map(onlyOfItself), ...arriving],
    withdrawn: new Set(withdrawn.map(({ bundleId }) => bundleId)),
    running: seen && runningReleases(bundles, seen),
    policy,
    now,
  });
}

function onlyOfItself(bundle: StoredBundle): StoredBundle {
  const { advisories: _, ...payload } = bundle.payload;
  return { ...bundle, payload };
}

/** A notice says nothing of itself: nothing of it can ever be activated. */
function asSpeaker(bundle: StoredBundle): StoredBundle {
  const { update: _, ...payload } = bundle.payload;
  return isRelease(bundle) ? bundle : { ...bundle, payload };
}
