import type { Image, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { type FoundBundle, isFaulty } from '../model/medium.ts';
import { labelOf, type Reason } from '../model/reason.ts';
import { type BadBlob, flawedAmong } from '../state/checks.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import type { BundleFacts } from './hold.ts';

export interface Supply {
  /** Layers and image manifests on this node: on any plugged medium, or on its own disk. */
  readonly availableBlobs: ReadonlySet<Digest>;
  /** Bundles of which a plugged medium carries an envelope without blobs. */
  readonly envelopes: ReadonlySet<BundleId>;
}

export interface ImageSupply {
  /**
   * Images whose missing layers are all at hand, or that may be pulled from their own registries.
   */
  readonly pullableImages: readonly Image[];
  /** Those of them that are to be pulled from their own registries. */
  readonly onlineImages: readonly Image[];
  /** Images for whose repositories our registry has anything to serve. */
  readonly mirroredImages: readonly Image[];
}

/** A blob belongs to no bundle: its digest says what it is. */
export function supplyOf(found: readonly FoundBundle[], localBlobs: ReadonlySet<Digest>): Supply {
  const availableBlobs = new Set(localBlobs);
  const envelopes = new Set<BundleId>();
  for (const entry of found) {
    if (entry.kind !== 'verified') continue;
    if (entry.isEnvelope) envelopes.add(entry.bundle.bundleId);
    const missing = new Set(entry.missing.map((blob) => blob.digest));
    const { layers, images } = entry.bundle.contents;
    for (const { digest } of [...layers, ...images]) if (!missing.has(digest)) availableBlobs.add(digest);
  }
  return { availableBlobs, envelopes };
}

/**
 * INVARIANT: an image comes from one place, since CRI-O chooses its source at the manifest
 * (docs/runtime-facts.md, fact 12): at hand as a whole, or online.
 */
export function supplyImages(
  { bundleId, contents }: VerifiedBundle,
  absentImages: readonly Image[],
  { supply, presentLayers, online }: { supply: Supply; presentLayers: ReadonlySet<Digest>; online: boolean },
): ImageSupply {
  const layersOf = (image: Image) => image.layers.flatMap((index) => contents.layers[index] ?? []);
  const hasAll = (image: Image) =>
    supply.availableBlobs.has(image.digest) &&
    layersOf(image).every(({ digest }) => presentLayers.has(digest) || supply.availableBlobs.has(digest));
  const isOnline = online && supply.envelopes.has(bundleId);
  if (!isOnline) {
    return { pullableImages: absentImages.filter(hasAll), onlineImages: [], mirroredImages: contents.images };
  }
  const hasSome = (image: Image) => layersOf(image).some(({ digest }) => supply.availableBlobs.has(digest));
  return {
    pullableImages: absentImages,
    onlineImages: absentImages.filter((image) => !hasAll(image)),
    mirroredImages: contents.images.filter((image) => hasAll(image) || hasSome(image)),
  };
}

/** How many are kept for a bundle; a message names one and counts the rest. */
const REMEMBERED = 20;

type Facts = Pick<BundleFacts, 'bundle' | 'absentImages' | 'presentLayers' | 'carriers' | 'failures'> & {
  readonly localBlobs: ReadonlySet<Digest>;
};

/**
 * What is known to be bad of a bundle after a round. What is stored holds while no medium with the
 * blob is plugged in: a copy that was just plugged in may be good until a pull has failed for it.
 */
export function badBlobsAfter(facts: Facts): readonly BadBlob[] {
  const { bundle, absentImages, carriers } = facts;
  if (absentImages.length === 0) return [];
  const isNeeded = neededIn(facts);
  const isMissingOnAll = (digest: Digest) =>
    carriers.every(({ found }) => found.missing.some((blob) => blob.digest === digest));
  const stored = (bundle.badBlobs ?? []).filter((bad) => isMissingOnAll(bad.digest));
  const unique = new Map<Digest, BadBlob>();
  for (const bad of [...failedIn(facts), ...stored, ...missingIn(facts, isMissingOnAll)]) {
    if (isNeeded(bad) && !unique.has(bad.digest)) unique.set(bad.digest, bad);
  }
  const all = [...unique.values()];
  // Of what may be on another medium one is enough: a large bundle on several media would have
  // thousands.
  const absent = all.filter(({ why }) => why === 'absent').slice(0, 1);
  return [...flawedAmong(all).slice(0, REMEMBERED), ...absent];
}

/** Pulls that failed while nothing plugged in had a good copy. */
function failedIn({ failures }: Facts): readonly BadBlob[] {
  return failures.flatMap(({ task, blob }) =>
    blob === undefined || !blob.isLast || task.kind !== 'pull'
      ? []
      : [{ digest: blob.digest, why: blob.why, medium: blob.medium ?? 'the medium', reference: task.reference }],
  );
}

/** What no plugged medium with the bundle has as a whole. */
function missingIn({ carriers }: Facts, isMissingOnAll: (digest: Digest) => boolean): readonly BadBlob[] {
  return carriers.flatMap(({ medium, found }) =>
    found.isEnvelope === true
      ? []
      : found.missing
          .filter(isFaulty)
          .filter(({ digest }) => isMissingOnAll(digest))
          .map(({ digest, why }) => ({ digest, why, medium: medium.label })),
  );
}

function neededIn({ bundle, absentImages, presentLayers, localBlobs }: Facts): (bad: BadBlob) => boolean {
  const { layers } = bundle.contents;
  const all = new Set(layers.map(({ digest }) => digest));
  const wanted = new Set(absentImages.flatMap((image) => image.layers.map((index) => layers[index]?.digest)));
  const references = new Set(absentImages.map(({ reference }) => reference));
  return ({ digest, reference }) => {
    if (localBlobs.has(digest) || presentLayers.has(digest)) return false;
    if (all.has(digest)) return wanted.has(digest);
    return reference === undefined || references.has(reference);
  };
}

/** Refusals by the node's policy.json. */
export function refusalsOf(
  { contents }: Pick<StoredBundle, 'contents'>,
  failures: readonly TaskFailure[],
): readonly TaskFailure[] {
  const references = new Set(contents.images.map(({ reference }) => reference));
  return failures.filter(
    ({ task, reason }) => task.kind === 'pull' && reason.code === 'runtime/policy' && references.has(task.reference),
  );
}

/** The only refusal, or the first with their number. */
export function refusalReason(
  { payload }: Pick<StoredBundle, 'payload'>,
  [first, ...others]: readonly TaskFailure[],
): Reason | undefined {
  if (first === undefined || others.length === 0) return first?.reason;
  const images = others.length + 1;
  return { code: 'runtime/policy', data: { bundle: labelOf(payload), images, first: first.reason } };
}
