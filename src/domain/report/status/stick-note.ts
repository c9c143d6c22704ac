import type { BundleAssessment } from '../../assess/assess-bundle.ts';

type Carried = Pick<BundleAssessment, 'media' | 'isOnPeersOnly'>;

/** Whether a stick that is plugged in carries the release. */
export function isOnStick({ media, isOnPeersOnly }: Carried): boolean {
  return media.length > 0 && isOnPeersOnly !== true;
}

/**
 * That the stick of a release that is ready may go: a sentence and a blank; empty when none is
 * plugged in.
 */
export function stickNote(entry: Carried): string {
  return isOnStick(entry) ? 'You may remove the stick. ' : '';
}
