import type { RuntimeObservation } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { Stored } from '../state/state.ts';
import { imageIds } from './proof/evidence.ts';
import { isContainerCheckDue } from './proof/rollback-evidence.ts';
import { neverActivated } from './proof/seen-running.ts';
import { unprovenReleases } from './recorded-phase.ts';
import { removableIds, spareTags, surplusBundles } from './retention.ts';

/** What of the rounds before says whether containers are to be looked at. */
export interface BeforeLook {
  /** Whether a bundle lacked space. */
  readonly isShort: boolean;
  /** How long ago containers were looked at, by the machine's own time. */
  readonly sinceLookMs: number;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Whether anything hangs on containers: a release that must prove itself or may run by itself, one
 * that is to be retired, images or tags that are to be removed. While all is proven they are looked
 * at now and then, since an older release may run again.
 */
export function needsContainers(
  stored: Stored,
  runtime: RuntimeObservation,
  policy: Policy,
  { isShort, sinceLookMs, now }: BeforeLook,
): boolean {
  if (runtime.kind !== 'reachable') return false;
  if (isContainerCheckDue(stored.bundles, sinceLookMs, policy.lifecycle)) return true;
  if (isShort || unprovenReleases(stored).length + neverActivated(stored.bundles).length > 0) return true;
  if (surplusBundles(stored.bundles, policy.lifecycle).length > 0) return true;
  const context = { images: runtime.images, ids: imageIds(runtime.images), stored };
  return stored.bundles.some(
    (bundle) => removableIds(bundle, context).length + spareTags(bundle, now, context).length > 0,
  );
}
