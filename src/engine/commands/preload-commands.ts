import { bundleTitle } from '../../domain/model/bundle.ts';
import { resumePreloads } from '../effects/record-effects.ts';
import { authorOf, type CommandContext, refuse } from './command-context.ts';

export const preloadCommands = { cancel };

/**
 * Cancels every preload that is not complete, until {@link resumeAll} or until a medium with the
 * bundle is plugged in. The cancellation persists over restarts.
 * INVARIANT: it is recorded before the pulls are aborted, so that none starts again after a crash.
 * @throws AppError `engine/nothing-to-cancel` (`reject`)
 */
function cancel(context: CommandContext): void {
  const { clock, store, media, tasks, assessment } = context;
  const cut = (assessment()?.bundles ?? []).filter(
    ({ bundle, absentImages, phase }) =>
      absentImages.length > 0 && phase !== 'retired' && bundle.cancelled === undefined,
  );
  if (cut.length === 0) throw refuse('engine/nothing-to-cancel', 'nothing is being preloaded, and no preload waits');
  const bundleIds = cut.map(({ bundle }) => bundle.bundleId);
  const titles = cut.map(({ bundle }) => bundleTitle(bundle.payload)).join(', ');
  const message = `Cancelling of ${titles} was asked for`;
  const plugged = media.list().map(({ mediumId }) => mediumId);
  store.cancel(bundleIds, plugged, { at: clock.now(), kind: 'cancel-requested', message, ...authorOf(context) });
  for (const task of tasks.running()) {
    if (task.kind === 'pull' && bundleIds.includes(task.bundleId)) tasks.cancel(task);
  }
}

export function resumeAll({ clock, store }: Pick<CommandContext, 'clock' | 'store'>): void {
  const all = store.load().bundles.map(({ bundleId }) => bundleId);
  resumePreloads(all, store, clock.now());
}
