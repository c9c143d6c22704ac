import { healingEvent } from '../../domain/report/events/image-events.ts';
import type { Healing } from '../../domain/state/effect.ts';
import { type EffectContext, type Executors, storedBundle } from './executor.ts';

export function contentExecutors(context: EffectContext): Executors<'heal-images'> {
  return { 'heal-images': ({ images }, _assessment, signal) => heal(context, images, signal) };
}

/**
 * One after the other, so that none keeps a damaged layer for another. @throws the first failure
 */
async function heal(context: EffectContext, images: readonly Healing[], signal: AbortSignal): Promise<void> {
  const failures: unknown[] = [];
  for (const image of images) {
    context.alive();
    // First, since a removal that fails counts as well, and would be retried without end.
    context.contentChecker.healing(image.reference);
    try {
      await removeOne(context, image, signal);
      context.contentChecker.removed(image.reference);
      context.recorder.record(healingEvent(image, storedBundle(context.store, image.bundleId)));
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** INVARIANT: the runtime forgets damaged blobs first, or the removal would leave shared ones. */
async function removeOne(
  { content, containers }: EffectContext,
  { forget, removal }: Healing,
  signal: AbortSignal,
): Promise<void> {
  await content.forgetContent(forget, signal);
  if (removal === undefined) return;
  for (const containerId of removal.containerIds) await containers.removeContainer(containerId, signal);
  await containers.removeImage(removal.imageId, signal);
}
