import type { BundleId } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';
import { currentRelease, isProven, isRolledBack, keptBundles, lastProven } from './recorded-phase.ts';
import { isBaseInNeed, isProtected, isWanted, surplusBundles } from './retention.ts';

/** Why a release that was activated, and is not the current one of its stream, is still pinned. */
export type KeptWhy =
  /** `lifecycle.protect` names it. */
  | { readonly kind: 'protected' }
  /** A person asked for its activation. */
  | { readonly kind: 'wanted' }
  /** A delta that was never complete builds on it. */
  | { readonly kind: 'base' }
  /** It is the last known good one, since `current` is not proven. */
  | { readonly kind: 'last-good'; readonly current: StoredBundle }
  /** It is one of `lifecycle.keep` proven releases. */
  | { readonly kind: 'fallback'; readonly keep: number }
  /** It was never proven, and nothing newer is: one that has a higher sequence has to be first. */
  | { readonly kind: 'unproven'; readonly current: StoredBundle; readonly isRolledBack: boolean }
  /** Nothing needs it; it goes once nothing runs from it. */
  | { readonly kind: 'surplus' };

/**
 * Why each of these releases is kept, see {@link KeptWhy}. Of a stream that has no current release
 * none is named.
 */
export function whyKept(bundles: readonly StoredBundle[], policy: Policy['lifecycle']): ReadonlyMap<BundleId, KeptWhy> {
  const surplus = new Set(surplusBundles(bundles, policy));
  const found = new Map<BundleId, KeptWhy>();
  for (const bundle of keptBundles(bundles)) {
    const current = currentRelease(bundles, bundle.payload.name);
    if (bundle.activatedAt === undefined || current === undefined || current === bundle) continue;
    found.set(bundle.bundleId, whyOf(bundle, current));
  }
  return found;

  function whyOf(bundle: StoredBundle, current: StoredBundle): KeptWhy {
    if (isProtected(bundle, policy)) return { kind: 'protected' };
    if (surplus.has(bundle)) return { kind: 'surplus' };
    if (isWanted(bundle)) return { kind: 'wanted' };
    if (isBaseInNeed(bundle, bundles)) return { kind: 'base' };
    if (bundle.provenAt === undefined) return { kind: 'unproven', current, isRolledBack: isRolledBack(bundle) };
    const isGood = lastProven(bundles, bundle.payload.name) === bundle;
    return isGood && !isProven(current) ? { kind: 'last-good', current } : { kind: 'fallback', keep: policy.keep };
  }
}
