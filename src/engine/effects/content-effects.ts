import { healingEvent } from '../../domain/report/events/image-events.ts';
import type { Healing } from '../../domain/state/effect.ts';
import type { ContentPort } from '../../ports/image-content.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { StateReader } from '../../ports/state.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { type Executors, storedBundle } from './executor.ts';

/** The adapters of {@link contentExecutors}. */
export interface ContentEffectDependencies {
  readonly store: StateReader;
  readonly content: Pick<ContentPort, 'forgetContent'>;
  readonly containers: Pick<ContainersPort, 'removeContainer' | 'removeImage'>;
  readonly contentChecker: Pick<ContentChecker, 'healing' | 'removed'>;
  readonly recorder: Pick<EventRecorder, 'tell'>;
  /** Called before each image, for the watchdog. */
  readonly alive: () => void;
}

/** Removes damaged images. What is absent then is pulled as any absent image. */
export function contentExecutors(deps: ContentEffectDependencies): Executors<'heal-images'> {
  return { 'heal-images': ({ images }, _assessment, signal) => heal(deps, images, signal) };
}

/**
 * Removes all images before it returns, so that none of them keeps a damaged layer for the pull of
 * another one. Continues after a failure. @throws the first failure
 */
async function heal(deps: ContentEffectDependencies, images: readonly Healing[], signal: AbortSignal): Promise<void> {
  const failures: unknown[] = [];
  for (const image of images) {
    deps.alive();
    // Before the removal: one that fails counts, or it would be tried without end.
    deps.contentChecker.healing(image.reference);
    try {
      await removeOne(deps, image, signal);
      deps.contentChecker.removed(image.reference);
      deps.recorder.tell(healingEvent(image, storedBundle(deps.store, image.bundleId)));
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/**
 * INVARIANT: the runtime forgets damaged blobs first, or the removal would leave those that are
 * shared.
 */
async function removeOne(
  { content, containers }: ContentEffectDependencies,
  { forget, removal }: Healing,
  signal: AbortSignal,
): Promise<void> {
  await content.forgetContent(forget, signal);
  if (removal === undefined) return;
  for (const containerId of removal.containerIds) await containers.removeContainer(containerId, signal);
  await containers.removeImage(removal.imageId, signal);
}
