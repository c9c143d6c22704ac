import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Clock } from '../../platform/clock.ts';
import type { MediaView } from '../../ports/media.ts';
import type { PreloadStore, StateReader } from '../../ports/state.ts';
import { resumePreloads } from '../effects/record-effects.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { refuse } from './find-bundle.ts';

/** What commands on preloads act on. */
export interface PreloadContext {
  readonly clock: Clock;
  readonly store: StateReader & Pick<PreloadStore, 'cancel'>;
  readonly media: Pick<MediaView, 'list'>;
  readonly tasks: Pick<Tasks, 'running' | 'cancel'>;
  /** That of the last round; undefined before the first. */
  readonly assessment: () => Assessment | undefined;
}

/** Stops preloads. */
export const preloadCommands = { cancel };

/**
 * Stops every preload that is not complete. It stays so, over restarts, until another medium with
 * its bundle is plugged in, or until {@link resumeAll}.
 *
 * INVARIANT: it is recorded before the pulls are aborted. A crash in between starts none of them
 * again.
 *
 * @throws AppError `engine/nothing-to-cancel` (`reject`) when there is none
 */
function cancel({ clock, store, media, tasks, assessment }: PreloadContext): void {
  const cut = (assessment()?.bundles ?? []).filter(
    ({ bundle, absentImages, phase }) =>
      absentImages.length > 0 && phase !== 'retired' && bundle.cancelled === undefined,
  );
  if (cut.length === 0) throw refuse('engine/nothing-to-cancel', 'nothing is being preloaded, and no preload waits');
  const bundleIds = cut.map(({ bundle }) => bundle.bundleId);
  const titles = cut.map(({ bundle }) => bundleTitle(bundle.payload)).join(', ');
  const message = `Cancelling of ${titles} was asked for`;
  const plugged = media.list().map(({ mediumId }) => mediumId);
  store.cancel(bundleIds, plugged, { at: clock.now(), kind: 'cancel-requested', message });
  for (const task of tasks.running()) {
    if (task.kind === 'pull' && bundleIds.includes(task.bundleId)) tasks.cancel(task);
  }
}

/** Takes back that preloads were cancelled. */
export function resumeAll({ clock, store }: Pick<PreloadContext, 'clock' | 'store'>): void {
  const all = store.load().bundles.map(({ bundleId }) => bundleId);
  resumePreloads(all, store, clock.now());
}
