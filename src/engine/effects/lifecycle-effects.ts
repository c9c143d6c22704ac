import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/reason.ts';
import { pathOf } from '../../domain/path/read-paths.ts';
import { isProven } from '../../domain/release/recorded-phase.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import { type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import type { Clock } from '../../platform/clock.ts';
import type { NodePort } from '../../ports/node.ts';
import type { ContainersPort, ImagesPort } from '../../ports/runtime.ts';
import type { ActivationStore, EventRow, MilestoneStore, RetirementStore, StateReader } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import {
  activeEvent,
  imagesRemovedEvent,
  incompleteWhy,
  provenEvent,
  type Retirement,
  retiredEvent,
  rolledBackEvent,
  seenRunningEvent,
  takesOverEvent,
} from '../reporting/lifecycle-events.ts';
import { type EffectOf, type Executors, storedBundle } from './executor.ts';

/** The adapters of {@link lifecycleExecutors}. */
export interface LifecycleEffectDependencies {
  readonly clock: Clock;
  readonly store: StateReader & ActivationStore & MilestoneStore & RetirementStore;
  readonly recorder: EventRecorder;
  readonly policy: Policy;
  readonly node: Pick<NodePort, 'facts'>;
  readonly containers: Pick<ContainersPort, 'removeContainer' | 'removeImage'>;
  readonly runtime: Pick<ImagesPort, 'image' | 'removeTag'>;
  /** Called before the removal of each image or tag, for the watchdog. */
  readonly alive: () => void;
}

/** Effects on releases after their activation. */
type LifecycleEffectKind =
  | 'record-soak'
  | 'record-active'
  | 'record-proven'
  | 'record-rolled-back'
  | 'request-activation'
  | 'take-over'
  | 'retire'
  | 'remove-images';

/** Record the phases of releases after their activation, retire releases and remove images. */
export function lifecycleExecutors(deps: LifecycleEffectDependencies): Executors<LifecycleEffectKind> {
  return {
    'record-soak': ({ bundleId, soak }) => onBundle(deps, bundleId, () => deps.store.setSoak(bundleId, soak)),
    'record-active': ({ bundleId }) =>
      onBundle(deps, bundleId, (bundle) => recordMark(deps, bundle, 'activeAt', activeEvent(bundle))),
    'record-proven': (effect) => onBundle(deps, effect.bundleId, (bundle) => recordProven(deps, bundle, effect)),
    'record-rolled-back': ({ bundleId, to }) =>
      onBundle(deps, bundleId, (bundle) => recordRolledBack(deps, bundle, to)),
    'request-activation': ({ bundleId, components }, assessment) =>
      onBundle(deps, bundleId, (bundle) => requestActivation(deps, bundle, components, assessment)),
    'take-over': (effect) => onBundle(deps, effect.bundleId, (bundle) => takeOver(deps, bundle, effect)),
    retire: (effect) => onBundle(deps, effect.bundleId, (bundle) => retire(deps, bundle, retirementOf(deps, effect))),
    'remove-images': (effect, _assessment, signal) =>
      onBundle(deps, effect.bundleId, (bundle) => removeImages(deps, bundle, effect, signal)),
  };
}

/** Does nothing when the bundle is not stored. */
function onBundle<T>(
  { store }: LifecycleEffectDependencies,
  bundleId: BundleId,
  work: (bundle: StoredBundle) => T,
): T | undefined {
  const bundle = storedBundle(store, bundleId);
  return bundle === undefined ? undefined : work(bundle);
}

/** Records an event with a time later than all recorded times, then logs it. */
function record(
  { store, recorder, clock }: LifecycleEffectDependencies,
  event: Event,
  write: (row: EventRow) => void,
): void {
  write({ ...recorder.row(event), at: stampAfter(store.load().bundles, clock.now()) });
  recorder.log(event);
}

function recordMark(
  deps: LifecycleEffectDependencies,
  { bundleId }: StoredBundle,
  mark: 'activeAt' | 'provenAt',
  event: Event,
): void {
  record(deps, event, (row) => deps.store.mark(bundleId, mark, row));
}

/** INVARIANT: `provenAt` is recorded last. Without it the release is looked at again. */
function recordProven(
  deps: LifecycleEffectDependencies,
  bundle: StoredBundle,
  { soak }: Pick<EffectOf<'record-proven'>, 'soak'>,
): void {
  if (soak !== undefined) deps.store.setSoak(bundle.bundleId, soak);
  recordMark(deps, bundle, 'provenAt', provenEvent({ ...bundle, ...(soak !== undefined && { soak }) }));
}

function recordRolledBack(deps: LifecycleEffectDependencies, bundle: StoredBundle, to: BundleId): void {
  const toTitle = titleOf(deps, to);
  record(deps, rolledBackEvent(bundle, toTitle, deps.store.load().bundles), (row) => {
    const message = `Activation of ${toTitle} was requested automatically, because it runs again`;
    const event = { at: row.at + 1, kind: 'activation-requested', bundleId: to, message };
    deps.store.rollBack(bundle.bundleId, row, { bundleId: to, event });
  });
}

function requestActivation(
  deps: LifecycleEffectDependencies,
  bundle: StoredBundle,
  components: readonly string[],
  { paths, clockSynchronised }: Pick<Assessment, 'paths' | 'clockSynchronised'>,
): void {
  const path = pathOf(paths, bundle.payload.name);
  const { store, clock, policy, node } = deps;
  const { bundles } = store.load();
  const question = { bundles, path, now: clock.now(), clockSynchronised, policy, facts: node.facts() };
  const event = seenRunningEvent(bundle, components, question);
  record(deps, event, (row) => deps.store.requestActivation(bundle.bundleId, RULE_CODES, row));
}

/**
 * INVARIANT: `activeAt` is recorded last, because it marks the take-over as complete. After a crash
 * before it, all steps are executed again.
 */
function takeOver(
  deps: LifecycleEffectDependencies,
  bundle: StoredBundle,
  { from, retireFrom }: EffectOf<'take-over'>,
): void {
  const { store } = deps;
  const old = storedBundle(store, from);
  if (old === undefined || bundle.activatedAt === undefined) return;
  if (old.soak !== undefined) store.setSoak(bundle.bundleId, { ...old.soak, activatedAt: bundle.activatedAt });
  if (old.provenAt !== undefined && !isProven(bundle)) recordMark(deps, bundle, 'provenAt', provenEvent(bundle));
  recordMark(deps, bundle, 'activeAt', takesOverEvent(bundle, old));
  const why = `, since ${bundleTitle(bundle.payload)} has the same images`;
  if (retireFrom) retire(deps, old, { removeImages: false, why });
}

function retirementOf(
  deps: LifecycleEffectDependencies,
  { bundleId, removeImages, roomFor, isIncomplete }: EffectOf<'retire'>,
): Retirement {
  if (isIncomplete === true) return { removeImages, why: incompleteWhy(titleOf(deps, bundleId)) };
  if (roomFor === undefined) return { removeImages, why: '' };
  return { removeImages, why: ` early, to make room for ${titleOf(deps, roomFor)}`, kind: 'roomMade' };
}

function retire(deps: LifecycleEffectDependencies, bundle: StoredBundle, retirement: Retirement): void {
  record(deps, retiredEvent(bundle, retirement), (row) =>
    deps.store.retire(bundle.bundleId, retirement.removeImages, row),
  );
}

/**
 * Continues after a failure, so that one image in use does not prevent the removal of the others.
 * @throws the first failure
 */
async function removeImages(
  { containers, runtime, recorder, alive }: LifecycleEffectDependencies,
  bundle: StoredBundle,
  { images, tags = [] }: EffectOf<'remove-images'>,
  signal: AbortSignal,
): Promise<void> {
  const failures: unknown[] = [];
  const countDone = async <T>(all: readonly T[], remove: (one: T) => Promise<boolean>) => {
    let count = 0;
    for (const one of all) {
      alive();
      try {
        if (await remove(one)) count += 1;
      } catch (error) {
        signal.throwIfAborted();
        failures.push(error);
      }
    }
    return count;
  };
  const imageCount = await countDone(images, async ({ imageId, containerIds }) => {
    for (const containerId of containerIds) await containers.removeContainer(containerId, signal);
    await containers.removeImage(imageId, signal);
    return true;
  });
  const tagCount = await countDone(tags, async (tag) => {
    // Others may have removed its other tags since the round looked.
    const image = await runtime.image(tag, signal);
    if (image === undefined || image.repoTags.length < 2) return false;
    await runtime.removeTag(tag, signal);
    return true;
  });
  if (imageCount + tagCount > 0) recorder.tell(imagesRemovedEvent(bundle, imageCount, tagCount));
  if (failures.length > 0) throw failures[0];
}

function titleOf({ store }: LifecycleEffectDependencies, bundleId: BundleId): string {
  const bundle = storedBundle(store, bundleId);
  return bundle === undefined ? bundleId : bundleTitle(bundle.payload);
}
