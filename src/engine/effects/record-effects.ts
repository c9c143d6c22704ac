import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { StateStore } from '../../ports/state.ts';
import { signersEvent } from '../reporting/release-events.ts';
import { type EffectContext, type EffectOf, type Executors, storedBundle } from './executor.ts';

export function recordExecutors(
  context: EffectContext,
): Executors<'record-signers' | 'record-bad-blobs' | 'record-ready' | 'resume-preload' | 'record-media-left'> {
  return {
    'record-signers': (effect) => recordSigners(context, effect),
    'record-bad-blobs': ({ bundleId, badBlobs }) => context.store.setBadBlobs(bundleId, badBlobs),
    'record-ready': ({ bundleId }) => recordReady(context, bundleId),
    'resume-preload': ({ bundleId }) => resumePreloads([bundleId], context.store, context.clock.now()),
    'record-media-left': ({ bundleId, media }) => context.store.setCancelledMedia(bundleId, media),
  };
}

function recordSigners({ store, recorder }: EffectContext, effect: EffectOf<'record-signers'>): void {
  const bundle = storedBundle(store, effect.bundleId);
  if (bundle === undefined) return;
  const event = signersEvent(bundle, effect.signedBy);
  store.setSigners(effect.bundleId, effect, recorder.row(event));
  recorder.log(event);
}

function recordReady({ store, recorder }: EffectContext, bundleId: BundleId): void {
  const bundle = storedBundle(store, bundleId);
  if (bundle === undefined || bundle.readyAt !== undefined) return;
  const event = readyEvent(bundle);
  store.mark(bundleId, 'readyAt', recorder.row(event));
  recorder.log(event);
}

function readyEvent({ bundleId, payload, contents }: StoredBundle): Event {
  const images = formatCount(contents.images.length, 'image');
  const message = `${bundleTitle(payload)} is ready: ${images} present and pinned`;
  return { kind: 'bundleReady', level: 'info', bundleId, message };
}

/** With one line in the history. */
export function resumePreloads(
  bundleIds: readonly BundleId[],
  store: Pick<StateStore, 'load' | 'cancel'>,
  at: number,
): void {
  const back = store.load().bundles.filter(({ bundleId, cancelled }) => cancelled && bundleIds.includes(bundleId));
  if (back.length === 0) return;
  const message = `${back.map(({ payload }) => bundleTitle(payload)).join(', ')} may be preloaded again`;
  store.cancel(
    back.map(({ bundleId }) => bundleId),
    undefined,
    { at, kind: 'preload-resumed', message },
  );
}
