import { defined } from '../../platform/defined.ts';
import { type Artifact, BASE_ANNOTATION, bundleName, type Image } from '../model/bundle.ts';
import type { PhaseOf } from '../model/condition.ts';
import type { Digest } from '../model/digest.ts';
import { type FaultyBlob, type FoundBundle, isFaulty, type Medium } from '../model/medium.ts';
import {
  type Fault,
  type ImageCount,
  type ImageReason,
  labelOf,
  type MediaReason,
  type QueuePlace,
  type Reason,
  type RoleShortage,
} from '../model/reason.ts';
import { type BadBlob, flawsAmong } from '../state/checks.ts';
import { interruptionOf, type LastCarrier, type Memory, mediumReadAgain, type TaskFailure } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import type { DiskVerdict } from './space.ts';

export interface Carrier {
  readonly medium: Medium;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
}

export interface BundleFacts {
  readonly bundle: StoredBundle;
  readonly absentImages: readonly Image[];
  readonly absentArtifacts: readonly Artifact[];
  readonly unpinnedImages: readonly Image[];
  readonly unsyncedImages: readonly Image[];
  readonly pullableImages: readonly Image[];
  /** A medium has the blobs of these artifacts that this node lacks. */
  readonly copyableArtifacts: readonly Artifact[];
  readonly presentLayers: ReadonlySet<Digest>;
  readonly availableBlobs: ReadonlySet<Digest>;
  /** How many layers a delta leaves to its base that are neither present nor on a medium. */
  readonly lackingOfBase: number;
  readonly baseHolders: readonly StoredBundle[];
  readonly base: StoredBundle | undefined;
  readonly isBaseRetired: boolean;
  readonly disk: DiskVerdict | undefined;
  readonly share: RoleShortage | undefined;
  readonly carriers: readonly Carrier[];
  readonly failures: readonly TaskFailure[];
  /** The media had no more to give in the last round. */
  readonly isExhaustedBundle: boolean;
  readonly badBlobs: readonly BadBlob[];
  readonly lastCarrier: LastCarrier | undefined;
  readonly media: readonly Medium[];
  /** Media were not read yet since the daemon started. */
  readonly areMediaUnread: boolean;
}

/** These codes of the runtime room need a person. */
const RUNTIME_OBSTACLES: ReadonlySet<string> = new Set(['runtime/config', 'runtime/write']);

/** This many checks of the pins come before a fault. */
const PIN_CHECKS_BEFORE_FAULT = 4;

/** Returns `runtime/pins-pending`, and after some checks `runtime/pins-ignored`. */
export function pinReason({ bundle, unpinnedImages }: BundleFacts, observed: Observed, memory: Memory): ImageReason {
  const fault = observed.runtime.kind === 'reachable' ? observed.runtime.pinFault : undefined;
  const attempts = memory.pinsRequested?.attempts ?? 0;
  const total = bundle.contents.images.length;
  const counts = { bundle: labelOf(bundle.payload), unpinned: unpinnedImages.length, total };
  if (fault !== undefined)
    return { code: 'runtime/pins-ignored', data: { ...counts, cause: { kind: 'fault', fault } } };
  if (attempts < PIN_CHECKS_BEFORE_FAULT) return { code: 'runtime/pins-pending', data: counts };
  const first = unpinnedImages[0]?.reference ?? '';
  return { code: 'runtime/pins-ignored', data: { ...counts, cause: { kind: 'not-reported', attempts, first } } };
}

/** Returns the reason for present images that a power cut would destroy. */
export function syncReason({ bundle, unsyncedImages }: BundleFacts, { storage }: Memory): Reason {
  const data = { bundle: labelOf(bundle.payload), images: unsyncedImages.length };
  return storage?.failure ?? { code: 'runtime/sync-pending', data };
}

/** Returns the reason of a release that was never complete: a power cut may have lost content. */
export function uncheckedReason({ bundle }: BundleFacts, { contentChecks: checks }: Memory): ImageReason | undefined {
  if (checks?.isAwaited !== true) return undefined;
  const images = bundle.contents.images.filter(({ reference }) => !checks.results.has(reference)).length;
  return images === 0 ? undefined : { code: 'engine/unchecked', data: { bundle: labelOf(bundle.payload), images } };
}

/** `held (base)`: the base of a delta is neither on this node nor on a plugged medium. */
export function baseHold(facts: BundleFacts): PhaseOf | undefined {
  const { lackingOfBase, base, baseHolders } = facts;
  const { payload } = facts.bundle;
  if (lackingOfBase === 0) return undefined;
  const needed = defined({
    isAdopted: base !== undefined,
    isRetired: facts.isBaseRetired || undefined,
    bundleId: payload.update?.base,
    name: baseNameOf(facts),
  });
  const holders = baseHolders.map((holder) => bundleName(holder.payload));
  const data = { bundle: labelOf(payload), layers: lackingOfBase, base: needed, holders };
  return { phase: 'held', hold: 'base', reason: { code: 'engine/no-base', data } };
}

function baseNameOf({ base, bundle }: BundleFacts): string | undefined {
  return base === undefined ? bundle.payload.annotations?.[BASE_ANNOTATION] : bundleName(base.payload);
}

export function cancelHold(facts: BundleFacts): PhaseOf | undefined {
  if (facts.bundle.cancelled === undefined) return undefined;
  return { phase: 'held', hold: 'cancelled', reason: { code: 'engine/cancelled', data: aboutImages(facts) } };
}

/** `held (runtime)`: the runtime's own configuration forbids an effect. It is still retried. */
export function runtimeHold({ obstacle }: Memory): PhaseOf | undefined {
  if (obstacle === undefined || !RUNTIME_OBSTACLES.has(obstacle.code)) return undefined;
  return { phase: 'held', hold: 'runtime', reason: obstacle };
}

/** `held (media)`: images or artifacts are absent, and no plugged medium can give one of them. */
export function mediaHold(facts: BundleFacts): PhaseOf | undefined {
  const { pullableImages, failures, copyableArtifacts } = facts;
  if (copyableArtifacts.length > 0) return undefined;
  const given = new Set(failures.filter((failure) => failure.retryAt === undefined).map(referenceOf));
  if (pullableImages.some((image) => !given.has(image.reference))) return undefined;
  return { phase: 'held', hold: 'media', reason: sourceReason(facts) };
}

function sourceReason(facts: BundleFacts): Reason {
  const { bundle, pullableImages, carriers, failures, lastCarrier, media } = facts;
  const bad = worstFailure(failures);
  // The code is the same as when the stick is gone.
  if (pullableImages.length > 0 && bad !== undefined)
    return bad.code === 'media/blob-damaged' ? (copyNeeded(facts) ?? bad) : bad;
  const peer = peerWaitedFor(carriers.map(({ medium }) => medium)) ?? restWaitedFor(facts);
  if (peer !== undefined) return { code: 'media/peer-waited-for', data: { ...aboutImages(facts), ...peer } };
  if (carriers.length > 0) return copyNeeded(facts) ?? carrierReason(facts);
  if (bundle.readyAt !== undefined) return imagesMissing(facts);
  const about = aboutImages(facts);
  if (facts.areMediaUnread) return { code: 'media/looking', data: about };
  const again = mediumReadAgain(lastCarrier, media);
  if (again !== undefined) return { code: 'media/reading', data: { ...about, medium: again.label } };
  return (
    copyNeeded(facts) ??
    restNeeded(facts) ?? { code: 'engine/no-source', data: { ...about, how: interruptionOf(lastCarrier, media) } }
  );
}

/** Returns the node whose turn comes first. Undefined while another medium carries the bundle. */
export function peerWaitedFor(
  carriers: readonly Medium[],
): { readonly peer: string; readonly queue?: QueuePlace } | undefined {
  if (carriers.length === 0 || carriers.some(({ peer }) => peer === undefined || peer.isReady)) return undefined;
  const placeOf = ({ peer }: Medium) => peer?.queue?.place || Number.MAX_SAFE_INTEGER;
  const [first] = [...carriers].sort((a, b) => placeOf(a) - placeOf(b));
  if (first === undefined) return undefined;
  return defined({ peer: first.label, queue: first.peer?.queue });
}

/** Like {@link peerWaitedFor}, for busy nodes that have the blobs that the others lack. */
function restWaitedFor(facts: BundleFacts): ReturnType<typeof peerWaitedFor> {
  const busy = facts.carriers.filter(({ medium }) => medium.peer?.isReady === false);
  return busy.length > 0 && missingOnAll(facts).length === 0
    ? peerWaitedFor(busy.map(({ medium }) => medium))
    : undefined;
}

function aboutImages({ bundle: { payload, contents }, absentImages, absentArtifacts }: BundleFacts) {
  const total = contents.images.length;
  const all = contents.artifacts?.length ?? 0;
  const artifacts = { present: all - absentArtifacts.length, total: all };
  const images: ImageCount = {
    present: total - absentImages.length,
    total,
    ...(absentArtifacts.length > 0 && { artifacts }),
  };
  return { bundle: labelOf(payload), images };
}

function carrierReason(facts: BundleFacts): MediaReason {
  const { bundle, carriers } = facts;
  const media = carriers.map((carrier) => carrier.medium.label);
  if (facts.absentImages.length > 0 && carriers.every(({ found }) => found.isEnvelope)) {
    return { code: 'engine/offline', data: { bundle: labelOf(bundle.payload), media } };
  }
  const missing = missingOnAll(facts);
  const [blob] = missing;
  const first =
    blob === undefined ? { reference: absentIn(facts)[0]?.reference ?? '' } : { digest: blob.digest, why: blob.why };
  const data = { kind: 'on-all-media', ...aboutImages(facts), media, blobs: missing.length, first } as const;
  return { code: 'bundle/blob-missing', data };
}

/** The read copies can't complete the bundle. Undefined when none of them is bad. */
export function copyNeeded(facts: BundleFacts): MediaReason | undefined {
  const flaws = flawsAmong(facts.badBlobs);
  return flaws && { code: 'engine/needs-copy', data: { ...aboutImages(facts), flaws } };
}

/** Another stick is needed once one gave all its blobs, or this node has a part. */
function restNeeded(facts: BundleFacts): MediaReason | undefined {
  const { bundle, presentLayers, availableBlobs, isExhaustedBundle, badBlobs } = facts;
  const indexes = new Set(absentIn(facts).flatMap(({ layers }) => layers));
  const needed = bundle.contents.layers.filter(({ digest }, at) => indexes.has(at) && !presentLayers.has(digest));
  const lacking = needed.filter(({ digest }) => !availableBlobs.has(digest));
  const isIncomplete = isExhaustedBundle || badBlobs.length > 0;
  const [first] = lacking;
  if (first === undefined || (lacking.length === needed.length && !isIncomplete)) return undefined;
  const sizeBytes = lacking.reduce((sum, layer) => sum + layer.sizeBytes, 0);
  const data = { kind: 'rest', ...aboutImages(facts), layers: lacking.length, sizeBytes, first: first.digest } as const;
  return { code: 'bundle/blob-missing', data };
}

function missingOnAll({ carriers, presentLayers, availableBlobs }: BundleFacts): readonly FaultyBlob[] {
  const isAtHand = (digest: Digest) => presentLayers.has(digest) || availableBlobs.has(digest);
  const [first, ...others] = carriers.map(({ found }) => found.missing);
  const lackingElsewhere = others.map((missing) => new Set(missing.map((blob) => blob.digest)));
  const lacksToo = (digest: Digest) => lackingElsewhere.every((missing) => missing.has(digest));
  return (first ?? []).filter(isFaulty).filter(({ digest }) => lacksToo(digest) && !isAtHand(digest));
}

/** Returns the reason of a once ready bundle that lacks images. It fits a STATUS line. */
export function imagesMissing(facts: BundleFacts): ImageReason {
  const named = absentIn(facts)
    .slice(0, 1)
    .map(({ reference }) => reference);
  return { code: 'engine/image-missing', data: { ...aboutMissing(facts), named, isList: false } };
}

export function lostImages(facts: BundleFacts): ImageReason | undefined {
  const { bundle, pullableImages, copyableArtifacts } = facts;
  const absent = absentIn(facts);
  if (bundle.readyAt === undefined || absent.length === 0) return undefined;
  if (pullableImages.length + copyableArtifacts.length > 0) return undefined;
  const named = absent.slice(0, MISSING_NAMED).map(({ reference }) => reference);
  return { code: 'engine/image-missing', data: { ...aboutMissing(facts), named, isList: true } };
}

/** This many missing images are named. The rest is counted. */
const MISSING_NAMED = 5;

function aboutMissing(facts: BundleFacts) {
  const { bundle, absentArtifacts } = facts;
  const { images, artifacts = [] } = bundle.contents;
  const isMixed = absentArtifacts.length > 0;
  const total = images.length + (isMixed ? artifacts.length : 0);
  const counts = { missing: absentIn(facts).length, total, ...(isMixed && { isMixed }) };
  return { bundle: labelOf(bundle.payload), ...counts, next: nextStep(facts) };
}

function absentIn({ absentImages, absentArtifacts }: BundleFacts): readonly (Image | Artifact)[] {
  return [...absentImages, ...absentArtifacts];
}

function nextStep(facts: BundleFacts): Extract<ImageReason, { code: 'engine/image-missing' }>['data']['next'] {
  const { pullableImages, copyableArtifacts, badBlobs, areMediaUnread, lackingOfBase, baseHolders } = facts;
  if (pullableImages.length + copyableArtifacts.length > 0) return { kind: 'pull' };
  if (areMediaUnread) return { kind: 'look' };
  const flaws = flawsAmong(badBlobs);
  if (flaws !== undefined) return { kind: 'copy', flaws };
  const [holder] = baseHolders;
  const base = holder === undefined ? baseNameOf(facts) : bundleName(holder.payload);
  return lackingOfBase === 0 || base === undefined ? { kind: 'plug-in' } : { kind: 'plug-in', base };
}

function referenceOf(failure: TaskFailure): string {
  return failure.task.kind === 'pull' ? failure.task.reference : '';
}

/** Returns a failure that is not retried automatically, else the one retried most often. */
export function worstFailure(failures: readonly TaskFailure[]): Fault | undefined {
  const rank = (failure: TaskFailure) => (failure.retryAt === undefined ? Number.MAX_SAFE_INTEGER : failure.attempts);
  return [...failures].sort((a, b) => rank(b) - rank(a))[0]?.reason;
}
