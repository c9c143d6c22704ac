import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import type { Clock } from '../../platform/clock.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { AdoptionStore, MilestoneStore, PreloadStore, StateReader } from '../../ports/state.ts';
import { signersEvent } from '../reporting/adoption-events.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { type EffectOf, type Executors, storedBundle } from './executor.ts';

/** The adapters of {@link recordExecutors}. */
export interface RecordEffectDependencies {
  readonly clock: Clock;
  readonly store: StateReader &
    Pick<AdoptionStore, 'setSigners'> &
    Pick<MilestoneStore, 'mark'> &
    Pick<PreloadStore, 'setBadBlobs' | 'cancel' | 'setCancelledMedia'>;
  readonly recorder: Pick<EventRecorder, 'row' | 'log'>;
}

/** Record signers, bad blobs, readiness, and cancelled and resumed preloads of bundles. */
export function recordExecutors(
  deps: RecordEffectDependencies,
): Executors<'record-signers' | 'record-bad-blobs' | 'record-ready' | 'resume-preload' | 'record-media-left'> {
  return {
    'record-signers': (effect) => recordSigners(deps, effect),
    'record-bad-blobs': ({ bundleId, badBlobs }) => deps.store.setBadBlobs(bundleId, badBlobs),
    'record-ready': ({ bundleId }) => recordReady(deps, bundleId),
    'resume-preload': ({ bundleId }) => resumePreloads([bundleId], deps.store, deps.clock.now()),
    'record-media-left': ({ bundleId, media }) => deps.store.setCancelledMedia(bundleId, media),
  };
}

function recordSigners({ store, recorder }: RecordEffectDependencies, effect: EffectOf<'record-signers'>): void {
  const bundle = storedBundle(store, effect.bundleId);
  if (bundle === undefined) return;
  const event = signersEvent(bundle, effect.signedBy);
  store.setSigners(effect.bundleId, effect, recorder.row(event));
  recorder.log(event);
}

function recordReady({ store, recorder }: RecordEffectDependencies, bundleId: BundleId): void {
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

/** Resumes the cancelled preloads among these bundles, with one line in the history. */
export function resumePreloads(
  bundleIds: readonly BundleId[],
  store: StateReader & Pick<PreloadStore, 'cancel'>,
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
