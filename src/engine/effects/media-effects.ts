import type { Assessment } from '../../domain/assess/assess.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { MediaControl, MediaView } from '../../ports/media.ts';
import type { StateReader } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import type { EffectOf, Executors } from './executor.ts';
import { type DocumentKeeping, keepDocuments, withoutAttachments } from './keep-documents.ts';

/** Runs jobs in parallel to the rounds, one for each medium. */
export interface MediaWork {
  readonly mediaJobs: Pick<MediaJobs, 'start'>;
  readonly recorder: Pick<EventRecorder, 'tellFailure'>;
}

/** The adapters of {@link mediaExecutors}. */
export interface MediaEffectDependencies extends MediaWork, DocumentKeeping {
  readonly media: Pick<MediaView, 'list'> & MediaControl;
  readonly store: StateReader;
}

/** Mount and read media. */
export function mediaExecutors(deps: MediaEffectDependencies): Executors<'mount-medium' | 'read-medium'> {
  const { media } = deps;
  return {
    'mount-medium': (effect, assessment) =>
      runInParallel(deps, effect, assessment, (signal) => media.mount(effect.mediumId, signal)),
    'read-medium': (effect, assessment) =>
      runInParallel(deps, effect, assessment, async (signal) => {
        await media.read(effect.mediumId, signal);
        await keepDocumentsOn(deps, effect.mediumId, signal);
      }),
  };
}

/** Starts `work` in parallel to the rounds. A failure is recorded as a failure of `effect`. */
export function runInParallel(
  { mediaJobs, recorder }: MediaWork,
  effect: EffectOf<'mount-medium' | 'read-medium' | 'keep-documents'>,
  assessment: Assessment,
  work: (signal: AbortSignal) => Promise<void>,
): void {
  mediaJobs.start(effect.mediumId, work, (error) => recorder.tellFailure(effect, assessment, error));
}

/**
 * Keeps documents of adopted bundles that the medium has and the store lacks. At the adoption they
 * were on another volume, or they were lost later.
 *
 * @throws AppError of the medium or the store
 */
async function keepDocumentsOn(deps: MediaEffectDependencies, mediumId: MediumId, signal: AbortSignal): Promise<void> {
  const state = deps.media.list().find((medium) => medium.mediumId === mediumId)?.state;
  for (const found of state?.kind === 'read' ? state.bundles : []) {
    if (found.kind !== 'verified') continue;
    const known = deps.store.load().bundles.find((bundle) => bundle.bundleId === found.bundle.bundleId);
    if (known === undefined) continue;
    await keepDocuments(isRetired(known) ? withoutAttachments(found) : found, deps, signal);
  }
}
