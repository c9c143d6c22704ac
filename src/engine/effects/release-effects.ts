import { pathOf } from '../../domain/activation/read-paths.ts';
import { type Assessment, allBundles } from '../../domain/assess/assess.ts';
import { allIn, bundleTitle, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { RULE_CODES } from '../../domain/model/reason.ts';
import { repositoryOf } from '../../domain/model/reference.ts';
import { imageIds } from '../../domain/release/evidence.ts';
import { isProven } from '../../domain/release/recorded-phase.ts';
import { spareTagsIn, withoutNames } from '../../domain/release/retention.ts';
import { isStillRemovable } from '../../domain/release/retirement.ts';
import { sharedRepositories } from '../../domain/release/tag-goals.ts';
import { contentText } from '../../domain/report/texts/short-texts.ts';
import type { PastSpeaker } from '../../domain/state/past.ts';
import { approvalsIn, type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { isApproved } from '../../domain/trust/approval.ts';
import { assertNever } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import { documentsOf } from '../keepers/document-keeper.ts';
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
import { decidedBundle, type EffectContext, type EffectOf, storedBundle } from './effect-context.ts';

export function recordSigners({ ports: { store, recorder } }: EffectContext, effect: EffectOf<'record-signers'>): void {
  const bundle = storedBundle(store, effect.bundleId);
  if (bundle === undefined) return;
  const event = signersEvent(bundle, effect.signedBy);
  const { bundleId, signedBy, signerKeyIds, signerRoles } = effect;
  store.change(bundleId, { signedBy, signerKeyIds, signerRoles }, recorder.row(event));
  recorder.log(event);
}

export function recordReady({ ports: { store, recorder } }: EffectContext, bundleId: BundleId): void {
  const bundle = storedBundle(store, bundleId);
  if (bundle === undefined || bundle.readyAt !== undefined) return;
  const event = readyEvent(bundle);
  const row = recorder.row(event);
  store.change(bundleId, { readyAt: row.at }, row);
  recorder.log(event);
}

function readyEvent({ bundleId, payload, contents }: StoredBundle): Event {
  const message = `${bundleTitle(payload)} is ready: ${contentText({ payload, contents })}`;
  return { kind: 'bundleReady', level: 'info', bundleId, message };
}

/** Adds one line to the history. */
export function resumePreloads(bundleIds: readonly BundleId[], store: StateStore, at: number): void {
  const back = store.load().bundles.filter(({ bundleId, cancelled }) => cancelled && bundleIds.includes(bundleId));
  if (back.length === 0) return;
  const message = `${back.map(({ payload }) => bundleTitle(payload)).join(', ')} may be preloaded again`;
  store.cancel(
    back.map(({ bundleId }) => bundleId),
    undefined,
    { at, kind: 'preload-resumed', message },
  );
}

type LifecycleEffect = EffectOf<
  | 'record-soak'
  | 'record-active'
  | 'record-proven'
  | 'record-rolled-back'
  | 'request-activation'
  | 'take-over'
  | 'retire'
  | 'remove-images'
>;

/** Does nothing when a command has changed the release since the decision. */
export async function followLifecycle(
  context: EffectContext,
  effect: LifecycleEffect,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  const { store } = context.ports;
  const bundle = decidedBundle(store, effect.bundleId, assessment);
  if (bundle === undefined) return;
  switch (effect.kind) {
    case 'record-soak':
      return store.change(bundle.bundleId, { soak: effect.soak });
    case 'record-active':
      return recordMark(context, bundle, 'activeAt', activeEvent(bundle));
    case 'record-proven':
      return recordProven(context, bundle, effect);
    case 'record-rolled-back':
      return recordRolledBack(context, bundle, effect.to);
    case 'request-activation':
      return requestActivation(context, bundle, effect.components, assessment);
    case 'take-over':
      return takeOver(context, bundle, effect);
    case 'retire':
      return retire(context, bundle, retirementOf(context, effect));
    case 'remove-images':
      return removeImages(context, bundle, effect, assessment.pins.unclaimed, signal);
    default:
      return assertNever(effect);
  }
}

/** The time of the event is later than all recorded times. */
function record(
  { ports: { store, recorder, clock } }: EffectContext,
  event: Event,
  write: (row: EventRow) => void,
): void {
  write({ ...recorder.row(event), at: stampAfter(store.load().bundles, clock.now()) });
  recorder.log(event);
}

function recordMark(
  context: EffectContext,
  { bundleId }: StoredBundle,
  mark: 'activeAt' | 'provenAt',
  event: Event,
): void {
  record(context, event, (row) => context.ports.store.change(bundleId, { [mark]: row.at }, row));
}

/** INVARIANT: `provenAt` is recorded last. Without it the release is checked again. */
function recordProven(context: EffectContext, bundle: StoredBundle, { soak }: EffectOf<'record-proven'>): void {
  const { store, policy } = context.ports;
  if (soak !== undefined) store.change(bundle.bundleId, { soak });
  const shared = sharedRepositories(bundle, policy.streams);
  recordMark(context, bundle, 'provenAt', provenEvent({ ...bundle, ...defined({ soak }) }, shared));
}

function recordRolledBack(context: EffectContext, bundle: StoredBundle, to: BundleId): void {
  const { store } = context.ports;
  const toTitle = titleOf(context, to);
  record(context, rolledBackEvent(bundle, toTitle, store.load().bundles), (row) => {
    const message = `Activation of ${toTitle} was requested automatically, because it runs again`;
    const event = { at: row.at + 1, kind: 'activation-requested', bundleId: to, message };
    store.rollBack(bundle.bundleId, row, { bundleId: to, event }, { text: rolledBackText(bundle, toTitle) });
  });
}

function requestActivation(
  context: EffectContext,
  bundle: StoredBundle,
  components: readonly string[],
  { paths, clockSynchronised }: Assessment,
): void {
  const path = pathOf(paths, bundle.payload.name);
  const { store, clock, policy, node } = context.ports;
  const { bundles } = store.load();
  const question = { bundles, path, now: clock.now(), clockSynchronised, policy, facts: node.facts() };
  const event = seenRunningEvent(bundle, components, question);
  record(context, event, (row) =>
    store.change(bundle.bundleId, { activationRequestedAt: row.at, activationOverrides: RULE_CODES }, row),
  );
}

/** INVARIANT: `activeAt` is recorded last. After a crash before it, all steps are repeated. */
function takeOver(context: EffectContext, bundle: StoredBundle, { from, retireFrom }: EffectOf<'take-over'>): void {
  const { store } = context.ports;
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
    context.ports.store.change(
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
  const { containers, runtime, recorder, alive, store, policy, clock } = context.ports;
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

function titleOf({ ports: { store } }: EffectContext, bundleId: BundleId): string {
  const bundle = storedBundle(store, bundleId);
  return bundle === undefined ? bundleId : bundleTitle(bundle.payload);
}

/** INVARIANT: the record goes last, so that all steps are repeated after a crash. */
export async function forgetRelease(
  context: EffectContext,
  bundleId: BundleId,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  const { store, documents, signedBundles } = context.ports;
  // A person may ask for it again at any time.
  const decided = () => decidedBundle(store, bundleId, assessment);
  const bundle = decided();
  if (bundle === undefined) return;
  for (const digest of await spareDocuments(bundle, assessment, context, signal)) {
    if (decided() === undefined) return;
    await documents.remove(digest, signal);
  }
  if (decided() === undefined) return;
  await signedBundles.remove(bundleId, signal);
  if (decided() !== undefined) store.forget(bundleId, speakerOf(bundle, context, assessment));
}

/**
 * Documents on the node's own disk that no other bundle has. Each one comes before the document
 * that names it, so that all that are left are found again after a crash.
 */
async function spareDocuments(
  bundle: StoredBundle,
  assessment: Assessment,
  context: EffectContext,
  signal: AbortSignal,
): Promise<readonly Digest[]> {
  const kept = await context.ports.documents.list(signal);
  const keptDocuments = (await documentsIn(bundle, context, signal)).filter((digest) => kept.has(digest));
  if (keptDocuments.length === 0) return [];
  const others = [
    ...allBundles(assessment).filter(({ bundleId }) => bundleId !== bundle.bundleId),
    ...assessment.adoptions.map(({ found }) => found.bundle),
  ];
  const needed = new Set<Digest>();
  for (const other of others) for (const digest of await documentsIn(other, context, signal)) needed.add(digest);
  return keptDocuments.filter((digest) => !needed.has(digest)).reverse();
}

async function documentsIn(
  { payload, contents }: VerifiedBundle,
  { ports: { documents, alive } }: EffectContext,
  signal: AbortSignal,
): Promise<readonly Digest[]> {
  const all: Digest[] = (payload.attachments ?? []).map(({ digest }) => digest);
  for (const { digest, attached = [] } of contents.images) {
    alive();
    all.push(...(await documentsOf(digest, documents, signal)));
    for (const tag of attached) all.push(tag.digest, ...tag.blobs.map((blob) => blob.digest));
  }
  for (const { digest, config } of contents.artifacts ?? []) all.push(digest, config.digest);
  return [...new Set(all)];
}

/** A release without trust says nothing of others, unless a person may let it in again. */
function speakerOf(
  bundle: StoredBundle,
  { ports: { policy, store } }: EffectContext,
  { bundles }: Assessment,
): PastSpeaker | undefined {
  const withdrawn = bundles.find((entry) => entry.bundle.bundleId === bundle.bundleId)?.withdrawn?.code;
  if (withdrawn !== undefined && withdrawn !== 'trust/rejected') return undefined;
  const { bundleId, payload, contents, signedBy, signerKeyIds, signerRoles, readyAt, resetAt } = bundle;
  const names = allIn(contents).flatMap(({ reference, tags }) => [reference, ...tags]);
  return defined({
    ...{ bundleId, payload, signedBy, signerKeyIds, signerRoles, readyAt, resetAt },
    contents: { images: [...new Set(names.map(repositoryOf))].map((reference) => ({ reference, tags: [] })) },
    isApproved: isApproved(bundle, approvalsIn(store.load(), policy)) || undefined,
  });
}
