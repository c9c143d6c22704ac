import { formatBytes, formatCount } from '../../platform/sizes.ts';
import type { Image } from '../model/bundle.ts';
import { BASE_ANNOTATION, bundleName, bundleTitle } from '../model/bundle.ts';
import { type Digest, shortDigest } from '../model/digest.ts';
import { type FoundBundle, isFaulty, type Medium, type MissingBlob, type Reason } from '../model/medium.ts';
import type { PhaseOf } from '../model/phase.ts';
import { type BadBlob, flawedAmong, flawsOf } from '../state/bad-blob.ts';
import { interruption, type LastCarrier } from '../state/last-carrier.ts';
import type { Memory, TaskFailure } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import type { DiskVerdict } from './disk-estimate.ts';

/** A plugged medium that carries the bundle, with what was found there. */
export interface Carrier {
  readonly medium: Medium;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
}

/** What is known of one adopted bundle, before it is given a phase. */
export interface BundleFacts {
  readonly bundle: StoredBundle;
  readonly absentImages: readonly Image[];
  readonly unpinnedImages: readonly Image[];
  readonly pullableImages: readonly Image[];
  readonly presentLayers: ReadonlySet<Digest>;
  /** What any medium or the node's own disk has. */
  readonly availableBlobs: ReadonlySet<Digest>;
  /**
   * How many layers that absent images need are left to the base and neither present nor offered by
   * a medium.
   */
  readonly lackingOfBase: number;
  /** The base, if it was adopted. */
  readonly base: StoredBundle | undefined;
  readonly disk: DiskVerdict | undefined;
  readonly carriers: readonly Carrier[];
  readonly failures: readonly TaskFailure[];
  /** Its media had no more to give in the last round. */
  readonly isExhaustedBundle: boolean;
  /** What is known to be damaged or lacking of it on the media that were seen. */
  readonly badBlobs: readonly BadBlob[];
  /** What carried it when it was last seen. */
  readonly lastCarrier: LastCarrier | undefined;
  readonly media: readonly Medium[];
  /** What is plugged in was not read yet since the daemon started. */
  readonly isLooking: boolean;
}

/** Codes of the runtime room for what a person has to change. */
const RUNTIME_OBSTACLES: ReadonlySet<string> = new Set(['runtime/config', 'runtime/write']);

/** How often the pins are asked for before it is called a fault. */
const PIN_ATTEMPTS_BEFORE_FAULT = 4;

/**
 * Why present images are not pinned: `runtime/pins-pending`, and after some tries
 * `runtime/pins-ignored`.
 */
export function pinReason({ bundle, unpinnedImages }: BundleFacts, observed: Observed, memory: Memory): Reason {
  const fault = observed.runtime.kind === 'reachable' ? observed.runtime.pinFault : undefined;
  const attempts = memory.pinsRequested?.attempts ?? 0;
  const first = unpinnedImages[0]?.reference ?? '';
  const count = `${unpinnedImages.length} of ${bundle.contents.images.length} images of ${bundleTitle(bundle.payload)}`;
  if (attempts < PIN_ATTEMPTS_BEFORE_FAULT && fault === undefined) {
    return { code: 'runtime/pins-pending', message: `${count} are present and not pinned yet` };
  }
  if (fault !== undefined)
    return { code: 'runtime/pins-ignored', message: `${count} are present and not pinned. ${fault.message}` };
  return {
    code: 'runtime/pins-ignored',
    message: `${count} are present, but the runtime does not report them as pinned after ${attempts} tries. Look for another file that sets pinned_images and sorts after 99-stickpin.conf, and into the runtime's own journal (first ${first})`,
  };
}

/**
 * `held (base)` when a delta has left layers to a base that is neither on this node nor on a
 * plugged medium.
 */
export function baseHold({ bundle, lackingOfBase, base }: BundleFacts): PhaseOf | undefined {
  if (lackingOfBase === 0) return undefined;
  const { payload } = bundle;
  const named = base === undefined ? payload.annotations?.[BASE_ANNOTATION] : bundleName(base.payload);
  const digest = payload.update?.base === undefined ? '' : shortDigest(payload.update.base);
  const name = named === undefined ? `bundle ${digest}` : `${named} (${digest})`;
  const state = base === undefined ? 'which this node has never had' : 'which is not complete on this node';
  const lacks = `it lacks ${formatCount(lackingOfBase, 'layer')}`;
  const next = `Plug in the stick with ${named ?? 'that bundle'}, or one with all of ${bundleTitle(payload)}.`;
  const message = `${bundleTitle(payload)} needs base ${name}, ${state}: ${lacks}. ${next}`;
  return { phase: 'held', hold: 'base', reason: { code: 'engine/no-base', message } };
}

/** `held (cancelled)` when a person stopped the preload. */
export function cancelHold({ bundle, absentImages }: BundleFacts): PhaseOf | undefined {
  if (bundle.cancelled === undefined) return undefined;
  const total = bundle.contents.images.length;
  const progress = `${total - absentImages.length}/${total} images`;
  const message = `The preload of ${bundleTitle(bundle.payload)} was cancelled (${progress}). Plug its stick in again, or run 'stickpin rescan', to go on.`;
  return { phase: 'held', hold: 'cancelled', reason: { code: 'engine/cancelled', message } };
}

/**
 * `held (runtime)` when the runtime's own configuration does not allow what is to be done; that is
 * tried on all the same.
 */
export function runtimeHold({ obstacle }: Memory): PhaseOf | undefined {
  if (obstacle === undefined || !RUNTIME_OBSTACLES.has(obstacle.code)) return undefined;
  return { phase: 'held', hold: 'runtime', reason: obstacle };
}

/**
 * `held (media)` when images are absent and no plugged medium can give one of them: it is away,
 * lacks blobs, or they are damaged.
 */
export function mediaHold(facts: BundleFacts): PhaseOf | undefined {
  const { pullableImages, failures } = facts;
  const given = new Set(failures.filter((failure) => failure.retryAt === undefined).map(referenceOf));
  if (pullableImages.some((image) => !given.has(image.reference))) return undefined;
  return { phase: 'held', hold: 'media', reason: sourceReason(facts) };
}

function sourceReason(facts: BundleFacts): Reason {
  const { bundle, absentImages, pullableImages, carriers, failures, lastCarrier, media } = facts;
  const bad = worstFailure(failures);
  if (pullableImages.length > 0 && bad !== undefined) return bad;
  if (carriers.length > 0 && carriers.every(({ found }) => found.isEnvelope)) {
    return { code: 'engine/offline', message: offlineMessage(facts) };
  }
  if (carriers.length > 0) return { code: 'bundle/blob-missing', message: missingMessage(facts) };
  if (bundle.readyAt !== undefined) return imagesMissing(facts);
  if (facts.isLooking) return lookingFor(facts);
  if (flawedAmong(facts.badBlobs).length > 0) return copyNeeded(facts);
  const rest = restMessage(facts);
  if (rest !== undefined) return { code: 'bundle/blob-missing', message: rest };
  const total = bundle.contents.images.length;
  const progress = `${total - absentImages.length}/${total} images`;
  const message = interruption(bundleTitle(bundle.payload), progress, lastCarrier, media);
  return { code: 'engine/no-source', message };
}

/** At the start nobody knows yet which media are plugged in. */
function lookingFor({ bundle, absentImages }: BundleFacts): Reason {
  const total = bundle.contents.images.length;
  const present = `${total - absentImages.length}/${total} images present`;
  const message = `stickpin has just started and looks whether ${bundleTitle(bundle.payload)} is plugged in (${present}).`;
  return { code: 'media/looking', message };
}

/** The copies that were seen can't complete the bundle, and none is plugged in. */
export function copyNeeded({ bundle, absentImages, badBlobs }: BundleFacts): Reason {
  const title = bundleTitle(bundle.payload);
  const total = bundle.contents.images.length;
  const message = `${title} needs an undamaged copy (${total - absentImages.length}/${total} images present): ${flawsOf(flawedAmong(badBlobs))}. ${HOW_TO_COPY} Or give it up: 'stickpin unpin ${bundleName(bundle.payload)}'.`;
  return { code: 'engine/needs-copy', message };
}

const HOW_TO_COPY = "Copy the bundle to a stick again, check it with 'stickpin bundle verify --full', and plug it in.";

function offlineMessage({ bundle, carriers }: BundleFacts): string {
  const labels = carriers.map((carrier) => carrier.medium.label).join(', ');
  return `${bundleTitle(bundle.payload)} on ${labels} is an envelope without blobs, and preload.online is false: plug in the stick with its blobs, or set preload.online = true.`;
}

function missingMessage(facts: BundleFacts): string {
  const { bundle, carriers, absentImages } = facts;
  const missing = missingOnAll(facts);
  const labels = carriers.map((carrier) => carrier.medium.label).join(', ');
  const [first] = missing;
  const which = first === undefined ? (absentImages[0]?.reference ?? '') : `${first.digest} (${first.why})`;
  const lacks = missing.length === 1 ? '1 blob' : `${missing.length} blobs`;
  const total = bundle.contents.images.length;
  return `${bundleTitle(bundle.payload)} on ${labels} lacks ${lacks}, first ${which}; ${total - absentImages.length}/${total} images present. Plug in the stick that carries the rest, or copy the bundle again.`;
}

/**
 * What is wanted of the stick with the rest, once one gave all it had, or a part of what is missing
 * lies on this node.
 */
function restMessage(facts: BundleFacts): string | undefined {
  const { bundle, absentImages, presentLayers, availableBlobs, isExhaustedBundle, badBlobs } = facts;
  const indexes = new Set(absentImages.flatMap((image) => image.layers));
  const needed = bundle.contents.layers.filter(({ digest }, at) => indexes.has(at) && !presentLayers.has(digest));
  const lacking = needed.filter(({ digest }) => !availableBlobs.has(digest));
  const isIncomplete = isExhaustedBundle || badBlobs.length > 0;
  if (lacking.length === 0 || (lacking.length === needed.length && !isIncomplete)) return undefined;
  const sizeBytes = lacking.reduce((sum, layer) => sum + layer.sizeBytes, 0);
  const total = bundle.contents.images.length;
  return `${bundleTitle(bundle.payload)} still lacks ${formatCount(lacking.length, 'layer')} (${formatBytes(sizeBytes)}), first ${lacking[0]?.digest}; ${total - absentImages.length}/${total} images present. Plug in the stick that carries the rest.`;
}

/** What none of the media has and the runtime has not got either. */
function missingOnAll({ carriers, presentLayers, availableBlobs }: BundleFacts): readonly MissingBlob[] {
  const isHere = (digest: Digest) => presentLayers.has(digest) || availableBlobs.has(digest);
  const [first, ...others] = carriers.map(({ found }) => found.missing);
  const lackingElsewhere = others.map((missing) => new Set(missing.map((blob) => blob.digest)));
  const lacksToo = (digest: Digest) => lackingElsewhere.every((missing) => missing.has(digest));
  return (first ?? []).filter((blob) => isFaulty(blob) && lacksToo(blob.digest) && !isHere(blob.digest));
}

/**
 * Images of a bundle that was ready before are not there any more, as after a wipe of the runtime's
 * storage. Short enough for a STATUS line.
 */
export function imagesMissing(facts: BundleFacts): Reason {
  const message = `${missingCount(facts)}, first ${facts.absentImages[0]?.reference}. ${whatNext(facts)}`;
  return { code: 'engine/image-missing', message };
}

/**
 * A bundle that was ready lacks images that no medium and no disk has, with the names of the first;
 * undefined while that is not so.
 */
export function lostImages(facts: BundleFacts): Reason | undefined {
  const { bundle, absentImages, pullableImages } = facts;
  if (bundle.readyAt === undefined || absentImages.length === 0 || pullableImages.length > 0) return undefined;
  const named = absentImages.slice(0, MISSING_NAMED).map(({ reference }) => reference);
  const rest = absentImages.length - named.length;
  const list = `${named.join(', ')}${rest === 0 ? '' : ` and ${rest} more`}`;
  return { code: 'engine/image-missing', message: `${missingCount(facts)}: ${list}. ${whatNext(facts)}` };
}

/** So many missing images are named; the rest are counted. */
const MISSING_NAMED = 5;

function missingCount({ bundle, absentImages }: BundleFacts): string {
  const verb = absentImages.length === 1 ? 'is' : 'are';
  return `${absentImages.length} of ${bundle.contents.images.length} images of ${bundleTitle(bundle.payload)} ${verb} missing`;
}

function whatNext({ bundle, pullableImages, badBlobs, isLooking }: BundleFacts): string {
  if (pullableImages.length > 0) return 'They are pulled again.';
  if (isLooking) return 'stickpin has just started and looks at the media.';
  const flaws = flawsOf(flawedAmong(badBlobs));
  if (flaws !== '') return `An undamaged copy is needed: ${flaws}. ${HOW_TO_COPY}`;
  return `Plug in the stick of ${bundleTitle(bundle.payload)}.`;
}

function referenceOf(failure: TaskFailure): string {
  return failure.task.kind === 'pull' ? failure.task.reference : '';
}

/**
 * The failure that a person should see: one that is not tried again by itself, else the one tried
 * most often.
 */
export function worstFailure(failures: readonly TaskFailure[]): Reason | undefined {
  const rank = (failure: TaskFailure) => (failure.retryAt === undefined ? Number.MAX_SAFE_INTEGER : failure.attempts);
  return [...failures].sort((a, b) => rank(b) - rank(a))[0]?.reason;
}
