import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Effect } from '../state/effect.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';

/**
 * Cancelled preloads to resume: a medium with the bundle was plugged in since the cancellation. A
 * node that gives it was plugged in by nobody. A complete preload is resumed too, so that it can be
 * repaired after a wipe of the runtime's storage.
 */
export function resumptions({ media }: Pick<Observed, 'media'>, { bundles }: Assessment): Effect[] {
  const isBack = ({ bundle: { bundleId, cancelled } }: BundleAssessment) =>
    media.some(
      ({ mediumId, state, peer }) =>
        state.kind === 'read' &&
        peer === undefined &&
        cancelled?.media.includes(mediumId) === false &&
        state.bundles.some((found) => found.kind === 'verified' && found.bundle.bundleId === bundleId),
    );
  return bundles
    .filter(({ bundle }) => bundle.cancelled !== undefined)
    .filter((entry) => entry.absentImages.length === 0 || isBack(entry))
    .map(({ bundle }) => ({ kind: 'resume-preload', bundleId: bundle.bundleId }));
}

/**
 * Cancellations of which a medium is not plugged in any more. Its id is forgotten: a folder has the
 * same id whenever it is there, and a stick may get it again after a boot. Nothing is known before
 * the first complete look at all media.
 */
export function mediaLeft(
  { media }: Pick<Observed, 'media'>,
  { isLooking }: Pick<Memory, 'isLooking'>,
  { bundles }: Assessment,
): Effect[] {
  if (isLooking === true) return [];
  const plugged = new Set(media.map(({ mediumId }) => mediumId));
  return bundles.flatMap(({ bundle: { bundleId, cancelled } }): Effect[] => {
    const stayed = cancelled?.media.filter((mediumId) => plugged.has(mediumId));
    return cancelled === undefined || stayed === undefined || stayed.length === cancelled.media.length
      ? []
      : [{ kind: 'record-media-left', bundleId, media: stayed }];
  });
}

/** Pulls that run of bundles whose preload was cancelled. */
export function cancelledPulls({ running }: Pick<Memory, 'running'>, { bundles }: Assessment): Effect[] {
  const cancelled = new Set(bundles.flatMap(({ bundle }) => (bundle.cancelled === undefined ? [] : [bundle.bundleId])));
  return running
    .filter((task) => task.kind === 'pull' && cancelled.has(task.bundleId))
    .map((task) => ({ kind: 'cancel', task }));
}
