import type { BundleAssessment } from '../../assess/assess-bundle.ts';

/** What says whether a stick has to stay. */
type Carried = Pick<BundleAssessment, 'media' | 'isOnPeersOnly' | 'neededBy'>;

/** Whether a stick that is plugged in carries the release. */
export function isOnStick({ media, isOnPeersOnly }: Carried): boolean {
  return media.length > 0 && isOnPeersOnly !== true;
}

/**
 * Whether the stick of a release that is ready may go: a sentence and a blank; empty when none is
 * plugged in.
 */
export function stickNote(entry: Carried): string {
  if (!isOnStick(entry)) return '';
  const { neededBy } = entry;
  if (neededBy === undefined) return 'You may remove the stick. ';
  if (neededBy === 'unknown') return 'Leave the stick in: stickpin-fleet.service does not say who needs it. ';
  return `Leave the stick in: ${neededBy.loading} of ${neededBy.all} nodes still load from it. `;
}
