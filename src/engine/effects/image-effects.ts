import { imageIds } from '../../domain/release/evidence.ts';
import { withoutUsed } from '../../domain/release/retention.ts';
import { healingEvent } from '../../domain/report/events/release-events.ts';
import type { Healing } from '../../domain/state/effect.ts';
import { type EffectContext, type EffectOf, type PinRequests, storedBundle } from './effect-context.ts';

/** After so many equal requests in a row, missing pins count as unenforced. */
const UNENFORCED_ATTEMPTS = 2;

/** INVARIANT: the gate learns it first. A proof for the old mirrors must not let a pull through. */
export async function applyMirrors(
  context: EffectContext,
  { repositories }: EffectOf<'apply-mirrors'>,
  signal: AbortSignal,
): Promise<void> {
  context.mirrorGate.written(repositories);
  const mirrors = repositories.map((repository) => ({ repository }));
  await context.ports.runtime.applyMirrors(mirrors, signal);
}

export async function applyPins(
  { ports: { runtime, clock }, pinRequests }: EffectContext,
  { references, unpinned, force, mirrorsFollow = false }: EffectOf<'apply-pins'>,
  signal: AbortSignal,
): Promise<void> {
  await runtime.applyPins(references, { force, mirrorsFollow }, signal);
  const { last, unenforced } = pinRequests;
  const isSame = last?.unpinned === unpinned && unpinned !== '';
  const attempts = isSame ? (last?.attempts ?? 0) + 1 : 1;
  pinRequests.last = { references, unpinned, attempts, at: clock.now() };
  if (attempts < UNENFORCED_ATTEMPTS) return;
  for (const reference of unpinned.split('\n')) if (!unenforced.has(reference)) unenforced.set(reference, false);
}

/** Returns the pins that were not pulled again since. */
export function unenforcedPins({ unenforced }: PinRequests): readonly string[] {
  return [...unenforced].flatMap(([reference, wasPulled]) => (wasPulled ? [] : [reference]));
}

/** Call when all pins are enforced. A pin that is lost later is requested without a pause. */
export function notePinsHeld(requests: PinRequests): void {
  if (requests.last !== undefined) requests.last = { ...requests.last, unpinned: '', attempts: 0 };
}

/**
 * One after the other, so that none keeps a damaged layer for another. @throws the first failure
 */
export async function healImages(
  context: EffectContext,
  { images }: EffectOf<'heal-images'>,
  signal: AbortSignal,
): Promise<void> {
  const { alive, recorder, store } = context.ports;
  const failures: unknown[] = [];
  for (const image of images) {
    alive();
    if (await isUsedNow(context, image, signal)) continue;
    // First, since a removal that fails counts as well, and would be retried without end.
    context.contentChecker.healing(image.reference);
    try {
      await removeOne(context, image, signal);
      context.contentChecker.removed(image.reference);
      recorder.record(healingEvent(image, storedBundle(store, image.bundleId)));
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** A container may have begun since the round began. */
async function isUsedNow(
  { ports: { containers } }: EffectContext,
  { reference, removal }: Healing,
  signal: AbortSignal,
): Promise<boolean> {
  if (removal === undefined) return false;
  const ids = imageIds([{ imageId: removal.imageId, repoTags: [], repoDigests: [reference], pinned: false }]);
  const [now] = withoutUsed([removal.imageId], await containers.containers(signal), ids);
  return now?.containerIds.every((id) => removal.containerIds.includes(id)) !== true;
}

/** INVARIANT: the runtime forgets damaged blobs first, or the removal would leave shared ones. */
async function removeOne(
  { ports: { content, containers } }: EffectContext,
  { forget, removal }: Healing,
  signal: AbortSignal,
): Promise<void> {
  await content.forgetContent(forget, signal);
  if (removal === undefined) return;
  for (const containerId of removal.containerIds) await containers.removeContainer(containerId, signal);
  await containers.removeImage(removal.imageId, signal);
}
