import type { Reason } from '../model/reason.ts';
import type { ReleaseStatus } from './node-status.ts';

const ROLLED_BACK = 'engine/rolled-back' satisfies Reason['code'];

/** Whether a node went back from a release, as far as it tells: also while it still goes back. */
export function isBack({ reason }: Pick<ReleaseStatus, 'reason'>): boolean {
  return reason === ROLLED_BACK;
}

/**
 * Whether the tags of a release hold on a node and stay. A node tells `current` of these alone. The
 * phase is no sign of it: a release that was rolled back is still `activated`, `proven` or
 * `superseded`.
 */
export function isInForce(release: Pick<ReleaseStatus, 'current' | 'reason'>): boolean {
  return release.current === true && !isBack(release);
}
