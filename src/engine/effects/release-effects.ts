import { pathOf } from '../../domain/activation/read-paths.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/reason.ts';
import { imageIds } from '../../domain/release/evidence.ts';
import { isProven } from '../../domain/release/recorded-phase.ts';
import { spareTagsIn, withoutNames } from '../../domain/release/retention.ts';
import { isStillRemovable } from '../../domain/release/retirement.ts';
import { sharedRepositories } from '../../domain/release/tag-goals.ts';
import { type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { defined } from '../../platform/defined.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import {
  activeEvent,
  containerReplacedEvent,
  imagesRemovedEvent,
  incompleteWhy,
  nodeImagesRemovedEvent,
  provenEvent,
  type Retirement,
  retiredEvent,
  rolledBackEvent,
  rolledBackText,
  seenRunningEvent,
  signersEvent,
  takesOverEvent,
} from '../reporting/events.ts';
import { decidedBundle, type EffectContext, type EffectOf, type Executors, storedBundle } from './executor.ts';

export function recordExecutors(
  context: EffectContext,
): Executors<'record-signers' | 'record-bad-blobs' | 'record-ready' | 'resume-preload' | 'record-media-left'> {
  return {
    'record-signers': (effect) => recordSigners(context, effect),
    'record-bad-blobs': ({ bundleId, badBlobs }) =>
      context.store.change(bundleId, { badBlobs: badBlobs.length === 0 ? undefined : badBlobs }),
    'record-ready': ({ bundleId }) => recordReady(context, bundleId),
    'resume-preload': ({ bundleId }) => resumePreloads([bundleId], context.store, context.clock.now()),
    'record-media-left': ({ bundleId, media }) => context.store.setCancelledMedia(bundleId, media),
  };
}

function recordSigners({ store, recorder }: EffectContext, effect: EffectOf<'record-signers'>): void {
  const bundle = storedBundle(store, effect.bundleId);
  if (bundle === undefined) return;
  const event = signersEvent(bundle, effect.signedBy);
  const { bundleId, signedBy, signerKeyIds, signerRoles } = effect;
  store.change(bundleId, { signedBy, signerKeyIds, signerRoles }, recorder.row(event));
  recorder.log(event);
}

function recordReady({ store, recorder }: EffectContext, bundleId: BundleId): void {
  const bundle = storedBundle(store, bundleId);
  if (bundle === undefined || bundle.readyAt !== undefined) return;
  const event = readyEvent(bundle);
  const row = recorder.row(event);
  store.change(bundleId, { readyAt: row.at }, row);
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

type LifecycleEffectKind =
  | 'record-soak'
  | 'record-active'
  | 'record-proven'
  | 'record-rolled-back'
  | 'request-activation'
  | 'take-over'
  | 'retire'
  | 'remove-images';

export function lifecycleExecutors(context: EffectContext): Executors<LifecycleEffectKind> {
  const { store } = context;
  return {
    'record-soak': on(({ bundleId }, { soak }) => store.change(bundleId, { soak })),
    'record-active': on((bundle) => recordMark(context, bundle, 'activeAt', activeEvent(bundle))),
    'record-proven': on((bundle, effect) => recordProven(context, bundle, effect)),
    'record-rolled-back': on((bundle, { to }) => recordRolledBack(context, bundle, to)),
    'request-activation': on((bundle, { components }, assessment) =>
      requestActivation(context, bundle, components, assessment),
    ),
    'take-over': on((bundle, effect) => takeOver(context, bundle, effect)),
    retire: on((bundle, effect) => retire(context, bundle, retirementOf(context, effect))),
    'remove-images': on((bundle, effect, assessment, signal) =>
      removeImages(context, bundle, effect, assessment.pins.unclaimed, signal),
    ),
  };

  function on<E extends { readonly bundleId: BundleId }>(
    work: (bundle: StoredBundle, effect: E, assessment: Assessment, signal: AbortSignal) => void | Promise<void>,
  ) {
    return (effect: E, assessment: Assessment, signal: AbortSignal): void | Promise<void> => {
      const bundle = decidedBundle(store, effect.bundleId, assessment);
      return bundle === undefined ? undefined : work(bundle, effect, assessment, signal);
    };
  }
}

/** With a time later than all recorded times. */
function record({ store, recorder, clock }: EffectContext, event: Event, write: (row: EventRow) => void): void {
  write({ ...recorder.row(event), at: stampAfter(store.load().bundles, clock.now()) });
  recorder.log(event);
}

function recordMark(
  context: EffectContext,
  { bundleId }: StoredBundle,
  mark: 'activeAt' | 'provenAt',
  event: Event,
): void {
  record(context, event, (row) => context.store.change(bundleId, { [mark]: row.at }, row));
}

/** INVARIANT: `provenAt` is recorded last. Without it the release is checked again. */
function recordProven(
  context: EffectContext,
  bundle: StoredBundle,
  { soak }: Pick<EffectOf<'record-proven'>, 'soak'>,
): void {
  if (soak !== undefined) context.store.change(bundle.bundleId, { soak });
  const shared = sharedRepositories(bundle, context.policy.streams);
  recordMark(context, bundle, 'provenAt', provenEvent({ ...bundle, ...defined({ soak }) }, shared));
}

function recordRolledBack(context: EffectContext, bundle: StoredBundle, to: BundleId): void {
  const toTitle = titleOf(context, to);
  record(context, rolledBackEvent(bundle, toTitle, context.store.load().bundles), (row) => {
    const message = `Activation of ${toTitle} was requested automatically, because it runs again`;
    const event = { at: row.at + 1, kind: 'activation-requested', bundleId: to, message };
    context.store.rollBack(bundle.bundleId, row, { bundleId: to, event }, { text: rolledBackText(bundle, toTitle) });
  });
}

function requestActivation(
  context: EffectContext,
  bundle: StoredBundle,
  components: readonly string[],
  { paths, clockSynchronised }: Pick<Assessment, 'paths' | 'clockSynchronised'>,
): void {
  const path = pathOf(paths, bundle.payload.name);
  const { store, clock, policy, node } = context;
  const { bundles } = store.load();
  const question = { bundles, path, now: clock.now(), clockSynchronised, policy, facts: node.facts() };
  const event = seenRunningEvent(bundle, components, question);
  record(context, event, (row) =>
    context.store.change(bundle.bundleId, { activationRequestedAt: row.at, activationOverrides: RULE_CODES }, row),
  );
}

/** INVARIANT: `activeAt` is recorded last. After a crash before it, all steps are repeated. */
function takeOver(context: EffectContext, bundle: StoredBundle, { from, retireFrom }: EffectOf<'take-over'>): void {
  const { store } = context;
  const old = storedBundle(store, from);
  if (old === undefined || bundle.activatedAt === undefined) return;
  if (old.soak !== undefined) store.change(bundle.bundleId, { soak: { ...old.soak, activatedAt: bundle.activatedAt } });
  if (old.provenAt !== undefined && !isProven(bundle)) recordMark(context, bundle, 'provenAt', provenEvent(bundle));
  recordMark(context, bundle, 'activeAt', takesOverEvent(bundle, old));
  const why = `, since ${bundleTitle(bundle.payload)} has the same images`;
  if (retireFrom) retire(context, old, { removeImages: false, why });
}

function retirementOf(
  context: EffectContext,
  { bundleId, removeImages, roomFor, isIncomplete }: EffectOf<'retire'>,
): Retirement {
  if (isIncomplete === true) return { removeImages, why: incompleteWhy(titleOf(context, bundleId)) };
  if (roomFor === undefined) return { removeImages, why: '' };
  return { removeImages, why: ` early, to make room for ${titleOf(context, roomFor)}`, kind: 'roomMade' };
}

function retire(context: EffectContext, bundle: StoredBundle, retirement: Retirement): void {
  record(context, retiredEvent(bundle, retirement), (row) =>
    context.store.change(
      bundle.bundleId,
      { retiredAt: row.at, removeImages: retirement.removeImages, isGivenUp: undefined },
      row,
    ),
  );
}

/**
 * Each image and tag is judged again right before its removal. One image in use does not prevent
 * the removal of the others. @throws the first failure
 */
async function removeImages(
  context: EffectContext,
  bundle: StoredBundle,
  effect: EffectOf<'remove-images'>,
  unclaimed: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { containers, runtime, recorder, alive, store, policy, clock } = context;
  const { images, areOfNode, tags = [], stopped = [] } = effect;
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
  const imageCount = await countDone(images, async (removal) => {
    const { imageId, name = imageId, containerIds } = removal;
    const image = await runtime.image(name, signal);
    const seen = { containers: await containers.containers(signal), stored: store.load(), policy, unclaimed };
    if (image === undefined || !isStillRemovable(effect, removal, { ...seen, image })) return false;
    for (const containerId of containerIds) await containers.removeContainer(containerId, signal);
    await containers.removeImage(name, signal);
    return true;
  });
  await countDone(stopped, async ({ containerId, name }) => {
    // Since the round began, it may have been started.
    const now = await containers.containers(signal);
    if (!now.some((one) => one.containerId === containerId && one.state === 'exited')) return false;
    await containers.removeContainer(containerId, signal);
    recorder.record(containerReplacedEvent(bundle, name));
    return true;
  });
  const tagCount = await countDone(tags, async (tag) => {
    const used = await containers.containerImages(signal);
    const image = await runtime.image(tag, signal);
    if (image === undefined || withoutNames([tag], used).length === 0) return false;
    const seen = { images: [image], ids: imageIds([image]), stored: store.load(), policy, unclaimed };
    if (!spareTagsIn(clock.now(), seen)(bundle).includes(tag)) return false;
    await runtime.removeTag(tag, signal);
    return true;
  });
  if (imageCount + tagCount > 0) {
    recorder.record(
      areOfNode ? nodeImagesRemovedEvent(bundle, imageCount) : imagesRemovedEvent(bundle, imageCount, tagCount),
    );
  }
  if (failures.length > 0) throw failures[0];
}

function titleOf({ store }: EffectContext, bundleId: BundleId): string {
  const bundle = storedBundle(store, bundleId);
  return bundle === undefined ? bundleId : bundleTitle(bundle.payload);
}
