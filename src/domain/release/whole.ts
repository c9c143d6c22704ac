import type { BundleId } from '../model/digest.ts';
import { type Lacking, lackingCount } from '../preload/supply.ts';
import { type ContentChecks, UNCHECKABLE_AFTER } from '../state/checks.ts';
import type { StoredBundle } from '../state/state.ts';
import { currentRelease, isRetired, lastProven } from './recorded-phase.ts';

/** The observed content of a release. All images are absent while the runtime does not answer. */
export interface Presence extends Lacking {
  readonly bundle: StoredBundle;
  readonly unpinnedImages: readonly unknown[];
  readonly unsyncedImages: readonly unknown[];
}

export type Whole = ReadonlySet<BundleId>;

/**
 * Returns the releases that the node can rely on: all images and artifacts are present, pinned and
 * on the disk, and no image may have lost its content in a power cut.
 * INVARIANT: code that gives up pins, images, tags or containers automatically first checks whether
 * the remaining release is whole ({@link isReliable}).
 */
export function wholeReleases(all: readonly Presence[], checks: ContentChecks | undefined): Whole {
  return new Set(all.filter((one) => isWhole(one, checks)).map(({ bundle }) => bundle.bundleId));
}

/**
 * Returns the releases that their containers may prove, also those with images that the runtime
 * can't check. Nothing else is given up for such a release.
 */
export function provableReleases(all: readonly Presence[], checks: ContentChecks | undefined): Whole {
  return new Set(all.filter((one) => isWhole(one, checks, UNCHECKABLE_AFTER)).map(({ bundle }) => bundle.bundleId));
}

function isWhole(one: Presence, checks: ContentChecks | undefined, unknownEnough = Number.POSITIVE_INFINITY): boolean {
  const { bundle, unpinnedImages, unsyncedImages } = one;
  if (isRetired(bundle) || lackingCount(one) + unpinnedImages.length + unsyncedImages.length > 0) return false;
  return bundle.contents.images.every(({ reference }) => isSound(reference, checks, unknownEnough));
}

/** After an unclean boot an image is sound once it was checked, or pulled since the check. */
function isSound(reference: string, checks: ContentChecks | undefined, unknownEnough: number): boolean {
  if (checks === undefined) return true;
  const { unknownChecks = 0, content } = checks.results.get(reference) ?? {};
  if (content?.kind === 'broken' || checks.healed.includes(reference)) return false;
  if (!checks.isDue || content?.kind === 'whole') return true;
  return checks.endedAt !== undefined && (content?.kind !== 'unknown' || unknownChecks >= unknownEnough);
}

/** Returns the release for a way back: the last known good one, else the current one. */
export function reliedOn(bundles: readonly StoredBundle[], stream: string): StoredBundle | undefined {
  return lastProven(bundles, stream) ?? currentRelease(bundles, stream);
}

/** Whether the stream's other releases are not needed in place of the relied on one. */
export function isReliable(stream: string, bundles: readonly StoredBundle[], whole: Whole): boolean {
  const release = reliedOn(bundles, stream);
  return release === undefined || whole.has(release.bundleId);
}
