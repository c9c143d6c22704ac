import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Effect } from '../state/effect.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';

/**
 * Cancelled preloads to resume: a medium with the bundle was plugged in that was not there at the
 * cancellation. A complete preload is resumed too, so that it can be repaired after a wipe of the
 * runtime's storage.
 */
export function resumptions({ media }: Pick<Observed, 'media'>, { bundles }: Assessment): Effect[] {
  const isBack = ({ bundle: { bundleId, cancelled } }: BundleAssessment) =>
    media.some(
      ({ mediumId, state }) =>
        state.kind === 'read' &&
        cancelled?.media.includes(mediumId) === false &&
        state.bundles.some((found) => found.kind === 'verified' && found.bundle.bundleId === bundleId),
    );
  return bundles
    .filter(({ bundle }) => bundle.cancelled !== undefined)
    .filter((entry) => entry.absentImages.length === 0 || isBack(entry))
    .map(({ bundle }) => ({ kind: 'resume-preload', bundleId: bundle.bundleId }));
}

/** Pulls that run of bundles whose preload was cancelled. */
export function cancelledPulls({ running }: Pick<Memory, 'running'>, { bundles }: Assessment): Effect[] {
  const cancelled = new Set(bundles.flatMap(({ bundle }) => (bundle.cancelled === undefined ? [] : [bundle.bundleId])));
  return running
    .filter((task) => task.kind === 'pull' && cancelled.has(task.bundleId))
    .map((task) => ({ kind: 'cancel', task }));
}
