import { onceFor } from '../../platform/once-for.ts';
import type { FoundOn } from '../adoption/unknown-bundles.ts';
import { type Artifact, allIn, type Contents, type Image, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { type RuntimeObservation, takesArtifacts } from '../model/image.ts';
import { type FoundBundle, isFaulty } from '../model/medium.ts';
import { labelOf, type Reason } from '../model/reason.ts';
import { type BadBlob, flawedAmong } from '../state/checks.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { type BundleFacts, type Carrier, worstFailure } from './hold.ts';

export interface Supply {
  /** Layers, manifests, and configs of artifacts, on plugged media or on the node's own disk. */
  readonly availableBlobs: ReadonlySet<Digest>;
  /** A plugged medium carries an envelope without blobs of these bundles. */
  readonly envelopes: ReadonlySet<BundleId>;
}

export interface ImageSupply {
  /** The missing layers are all at hand, or the images' own registries may be used. */
  readonly pullableImages: readonly Image[];
  readonly onlineImages: readonly Image[];
  readonly mirroredImages: readonly Image[];
}

export interface Lacking {
  readonly absentImages: readonly unknown[];
  readonly absentArtifacts: readonly unknown[];
}

export function lackingCount({ absentImages, absentArtifacts }: Lacking): number {
  return absentImages.length + absentArtifacts.length;
}

/** Returns artifacts with a blob that is not on the node's own disk. */
export function absentArtifacts({ contents }: VerifiedBundle, localBlobs: ReadonlySet<Digest>): readonly Artifact[] {
  return (contents.artifacts ?? []).filter((artifact) => !hasAllOf(artifact, contents, localBlobs));
}

/** Returns artifacts with every blob on the node's own disk or on a medium. */
export function copyableArtifacts(
  absent: readonly Artifact[],
  { contents }: VerifiedBundle,
  { availableBlobs }: Supply,
): readonly Artifact[] {
  return absent.filter((artifact) => hasAllOf(artifact, contents, availableBlobs));
}

/** The mirrors of such a release are in place. Artifacts that the runtime lacks hold nothing. */
export function artifactsToPull(
  { contents, readyAt }: StoredBundle,
  absent: readonly Artifact[],
  runtime: RuntimeObservation,
): readonly Artifact[] {
  const { artifacts = [] } = contents;
  if (artifacts.length === 0 || readyAt === undefined || runtime.kind !== 'reachable') return [];
  if (!takesArtifacts(runtime)) return [];
  const listed = new Set(runtime.images.flatMap(({ repoDigests }) => repoDigests));
  return artifacts.filter((artifact) => !absent.includes(artifact) && !listed.has(artifact.reference));
}

function hasAllOf({ digest, config, layers }: Artifact, contents: Contents, blobs: ReadonlySet<Digest>): boolean {
  const all = [digest, config.digest, ...layers.map((at) => contents.layers[at]?.digest)];
  return all.every((one) => one !== undefined && blobs.has(one));
}

/** A blob belongs to no bundle: its digest identifies it. */
export function supplyOf(found: readonly FoundBundle[], localBlobs: ReadonlySet<Digest>): Supply {
  const availableBlobs = new Set(localBlobs);
  const envelopes = new Set<BundleId>();
  for (const entry of found) {
    if (entry.kind !== 'verified') continue;
    if (entry.isEnvelope) envelopes.add(entry.bundle.bundleId);
    const missing = new Set(entry.missing.map((blob) => blob.digest));
    const { layers, images, artifacts = [] } = entry.bundle.contents;
    const configs = artifacts.map(({ config }) => config);
    for (const { digest } of [...layers, ...images, ...artifacts, ...configs])
      if (!missing.has(digest)) availableBlobs.add(digest);
  }
  return { availableBlobs, envelopes };
}

/**
 * Returns the sources of a release's blobs. While it lacks layers any carrier of them counts, also
 * one of another bundle. Other nodes give only blobs that no medium of this node has.
 */
export function giversOf(
  { bundle, absentImages, absentArtifacts, carriers, presentLayers }: BundleFacts,
  found: readonly FoundOn[],
  localBlobs: ReadonlySet<Digest>,
): readonly FoundOn[] {
  const wanted = new Set([...absentImages, ...absentArtifacts].flatMap(({ layers }) => layers));
  const holders = bundle.contents.layers.flatMap(({ digest }, at) => {
    if (!wanted.has(at) || presentLayers.has(digest) || localBlobs.has(digest)) return [];
    const all = layerHolders(found).get(digest) ?? [];
    const local = all.filter(({ medium }) => medium.peer === undefined);
    return local.length > 0 ? local : all;
  });
  return holders.length > 0 ? [...new Set(holders)] : blobCarriers(carriers);
}

/** Excludes envelopes, which have no blobs. */
export function blobCarriers(carriers: readonly Carrier[]): readonly Carrier[] {
  return carriers.filter(({ found }) => found.isEnvelope !== true);
}

const layerHolders = onceFor((all: readonly FoundOn[]) => {
  const holders = new Map<Digest, FoundOn[]>();
  for (const one of all) {
    if (one.found.kind !== 'verified' || one.found.isEnvelope === true) continue;
    const missing = new Set(one.found.missing.map(({ digest }) => digest));
    for (const { digest } of one.found.bundle.contents.layers) {
      if (missing.has(digest)) continue;
      const known = holders.get(digest);
      if (known === undefined) holders.set(digest, [one]);
      else known.push(one);
    }
  }
  return holders;
});

/** INVARIANT: an image comes from one place (docs/runtime-facts.md, fact 12). */
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

/** This many are kept for a bundle. A message names one and counts the rest. */
const REMEMBERED = 20;

type Facts = Pick<
  BundleFacts,
  'bundle' | 'absentImages' | 'absentArtifacts' | 'presentLayers' | 'carriers' | 'failures'
> & {
  readonly localBlobs: ReadonlySet<Digest>;
};

/** Stored faults count while no medium with the blob is plugged in: a new copy may be good. */
export function badBlobsAfter(facts: Facts): readonly BadBlob[] {
  const { bundle, carriers } = facts;
  if (lackingCount(facts) === 0) return [];
  const isNeeded = neededIn(facts);
  const isMissingOnAll = (digest: Digest) =>
    carriers.every(({ found }) => found.missing.some((blob) => blob.digest === digest));
  const stored = (bundle.badBlobs ?? []).filter((bad) => isMissingOnAll(bad.digest));
  const unique = new Map<Digest, BadBlob>();
  for (const bad of [...failedIn(facts), ...stored, ...missingIn(facts, isMissingOnAll)]) {
    if (isNeeded(bad) && !unique.has(bad.digest)) unique.set(bad.digest, bad);
  }
  const all = [...unique.values()];
  // One absent blob that may be on another medium is enough: a large bundle would have thousands.
  const absent = all.filter(({ why }) => why === 'absent').slice(0, 1);
  return [...flawedAmong(all).slice(0, REMEMBERED), ...absent];
}

function failedIn({ failures }: Facts): readonly BadBlob[] {
  return failures.flatMap(({ task, blob }) =>
    blob === undefined || !blob.isLast || task.kind !== 'pull'
      ? []
      : [{ digest: blob.digest, why: blob.why, medium: blob.medium ?? 'the medium', reference: task.reference }],
  );
}

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

function neededIn(facts: Facts): (bad: BadBlob) => boolean {
  const { bundle, absentImages, absentArtifacts: artifacts, presentLayers, localBlobs } = facts;
  const { layers } = bundle.contents;
  const all = new Set(layers.map(({ digest }) => digest));
  const absent = [...absentImages, ...artifacts];
  const wanted = new Set(absent.flatMap((one) => one.layers.map((index) => layers[index]?.digest)));
  const references = new Set(absent.map(({ reference }) => reference));
  return ({ digest, reference }) => {
    if (localBlobs.has(digest) || presentLayers.has(digest)) return false;
    if (all.has(digest)) return wanted.has(digest);
    return reference === undefined || references.has(reference);
  };
}

export function refusalsOf({ contents }: StoredBundle, failures: readonly TaskFailure[]): readonly TaskFailure[] {
  const references = new Set(allIn(contents).map(({ reference }) => reference));
  return failures.filter(
    ({ task, reason }) => task.kind === 'pull' && reason.code === 'runtime/policy' && references.has(task.reference),
  );
}

export function refusalReason(
  { payload, contents }: StoredBundle,
  [first, ...others]: readonly TaskFailure[],
): Reason | undefined {
  if (first === undefined || others.length === 0) return first?.reason;
  const artifacts = new Set((contents.artifacts ?? []).map(({ reference }) => reference));
  const isMixed = [first, ...others].some(({ task }) => task.kind === 'pull' && artifacts.has(task.reference));
  const counts = { images: others.length + 1, ...(isMixed && { isMixed }) };
  return { code: 'runtime/policy', data: { bundle: labelOf(payload), ...counts, first: first.reason } };
}

/**
 * What the next try settles: a pulled image is not listed until the images are read again, and a
 * runtime that answers again pulls again. While it is away, its own line says so.
 */
const PASSES: ReadonlySet<string> = new Set(['engine/not-listed', 'runtime/unreachable']);

/** Why pulls fail, and why for good. `configFault` counts only where nothing else does. */
export function troublesOf(bundle: StoredBundle, failures: readonly TaskFailure[], configFault: Reason | undefined) {
  const lasting = failures.filter(({ retryAt, isExhausted }) => retryAt === undefined || isExhausted);
  const known = failures.filter(({ attempts, reason }) => attempts > 1 || !PASSES.has(reason.code));
  return { trouble: oneReason(bundle, known) ?? configFault, degraded: oneReason(bundle, lasting) ?? configFault };
}

/** A policy refuses many images for the same reason, so they count as one fault. */
function oneReason(bundle: StoredBundle, failures: readonly TaskFailure[]): Reason | undefined {
  const worst = worstFailure(failures);
  if (worst?.code !== 'runtime/policy') return worst;
  return refusalReason(bundle, refusalsOf(bundle, failures));
}
