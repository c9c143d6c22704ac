import { type Artifact, allIn, type Image } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { type ExpectedLayer, type RuntimeContainer, type RuntimeImage, usableImages } from '../model/image.ts';
import type { ContentFault, DamageOutcome } from '../model/reason.ts';
import { type Supply, supplyImages } from '../preload/supply.ts';
import type { ContentChecks, DocumentCheck, DocumentChecks, PullChecks } from '../state/checks.ts';
import type { Removal } from '../state/effect.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { imageIds } from './evidence.ts';
import { isRetired, keptBundles } from './recorded-phase.ts';
import { withoutUsed } from './retention.ts';

export type DamageNext =
  | { readonly kind: 'heal'; readonly removal: Removal | undefined }
  | { readonly kind: 'shared'; readonly reference: string }
  | { readonly kind: Exclude<DamageOutcome, 'heal' | 'shared'> };

export interface DamagedImage {
  readonly image: Image;
  /** Bundles with the image, in the order of adoption. At least one. */
  readonly bundles: readonly StoredBundle[];
  readonly faults: readonly ContentFault[];
  readonly isPresent: boolean;
  readonly next: DamageNext;
}

export interface DamageContext {
  readonly checks: ContentChecks;
  readonly releases: readonly { readonly bundle: StoredBundle; readonly isTrusted: boolean }[];
  readonly images: readonly RuntimeImage[];
  readonly containers: readonly RuntimeContainer[] | undefined;
  readonly supply: Supply;
  /** Setting `preload.online`. */
  readonly online: boolean;
}

const HEALINGS = 2;

/**
 * INVARIANTS: an image is removed only when all its blobs are at hand or in whole images, and no
 * container uses it. All images that share the damage are removed, or none.
 */
export function damagedImages(context: DamageContext): readonly DamagedImage[] {
  const found = findDamage(context);
  if (found.length === 0) return [];
  const wholeLayers = layersOfWhole(context);
  const judged = found.map((one): DamagedImage => ({ ...one, next: nextOf(one, wholeLayers, context) }));
  return keepShared(judged);
}

export function healable(damaged: readonly DamagedImage[]): readonly DamagedImage[] {
  return damaged.filter(({ next }) => next.kind === 'heal');
}

type Found = Omit<DamagedImage, 'next'>;

function findDamage({ checks, releases, images }: DamageContext): readonly Found[] {
  if (checks.results.size === 0) return [];
  const listed = new Set(usableImages(images).flatMap(({ repoDigests }) => repoDigests));
  const found = new Map<string, Found>();
  for (const { bundle } of releases) {
    if (isRetired(bundle)) continue;
    for (const image of bundle.contents.images) {
      const content = checks.results.get(image.reference)?.content;
      if (content?.kind !== 'broken' && content?.kind !== 'absent') continue;
      // An image that is not unpacked counts as absent, and is pulled again without a removal.
      const faults = content.faults.filter(({ kind }) => kind !== 'not-unpacked');
      if (faults.length === 0) continue;
      const bundles = [...(found.get(image.reference)?.bundles ?? []), bundle];
      found.set(image.reference, { image, bundles, faults, isPresent: listed.has(image.reference) });
    }
  }
  return [...found.values()];
}

/** Returns layers that the runtime certainly has. They need not be at hand. */
function layersOfWhole({ checks, releases, images }: DamageContext): ReadonlySet<Digest> {
  const listed = new Set(usableImages(images).flatMap(({ repoDigests }) => repoDigests));
  return new Set(
    releases.flatMap(({ bundle: { contents } }) =>
      contents.images
        .filter(({ reference }) => listed.has(reference) && checks.results.get(reference)?.content.kind === 'whole')
        .flatMap(({ layers }) => layers.flatMap((index) => contents.layers[index]?.digest ?? [])),
    ),
  );
}

function nextOf(found: Found, wholeLayers: ReadonlySet<Digest>, context: DamageContext): DamageNext {
  const { image, isPresent } = found;
  if ((context.checks.healings.get(image.reference) ?? 0) >= HEALINGS) return { kind: 'give-up' };
  const trusted = found.bundles.filter((bundle) =>
    context.releases.some((one) => one.bundle === bundle && one.isTrusted),
  );
  const active = trusted.filter(({ cancelled }) => cancelled === undefined);
  if (trusted.length > 0 && active.length === 0) return { kind: 'cancelled' };
  if (!active.some((bundle) => isPullable(found, bundle, wholeLayers, context))) return { kind: 'plug-in' };
  if (!isPresent) return { kind: 'heal', removal: undefined };
  return removalOf(image, context);
}

/** An image that may still start is removed only if its blobs are at hand: a registry may fail. */
function isPullable(
  { image, faults }: Found,
  bundle: StoredBundle,
  presentLayers: ReadonlySet<Digest>,
  { supply, online }: DamageContext,
): boolean {
  const isUseless = faults.some((fault) => isFatal(fault, image, bundle));
  const inBundle = bundle.contents.images.find(({ reference }) => reference === image.reference) ?? image;
  const { pullableImages } = supplyImages(bundle, [inBundle], { supply, presentLayers, online: online && isUseless });
  return pullableImages.length > 0;
}

/** Whether no container can be made from an image with this fault. */
function isFatal(fault: ContentFault, { layers }: Image, { contents }: StoredBundle): boolean {
  if (fault.kind === 'records') return false;
  if (fault.kind !== 'blob') return true;
  return !layers.some((index) => contents.layers[index]?.digest === fault.digest);
}

function removalOf({ reference }: Image, { images, containers }: DamageContext): DamageNext {
  const ids = imageIds(images);
  const imageId = ids.of(reference);
  if (imageId === undefined || containers === undefined) return { kind: 'look' };
  if (containers.some(({ volumeImages }) => volumeImages === 'unknown')) return { kind: 'look' };
  const [removal] = withoutUsed([imageId], containers, ids);
  return removal === undefined ? { kind: 'in-use' } : { kind: 'heal', removal };
}

/**
 * Keeps images that share damage with one that stays: runtimes do not transfer shared layers again.
 */
function keepShared(judged: readonly DamagedImage[]): readonly DamagedImage[] {
  const staying = new Map<string, string>();
  for (const { image, isPresent, faults, next } of judged) {
    if (!isPresent || next.kind === 'heal') continue;
    for (const fault of faults) staying.set(keyOf(fault), image.reference);
  }
  const changed = judged.map((one): DamagedImage => {
    if (one.next.kind !== 'heal' || !one.isPresent) return one;
    const reference = one.faults.map((fault) => staying.get(keyOf(fault))).find((other) => other !== undefined);
    return reference === undefined ? one : { ...one, next: { kind: 'shared', reference } };
  });
  return changed.some((one, at) => one !== judged[at]) ? keepShared(changed) : judged;
}

/** Two images with the same key share the damage. */
function keyOf(fault: ContentFault): string {
  if (fault.kind === 'not-unpacked') return fault.kind;
  return fault.kind === 'records' ? fault.what : fault.digest;
}

export function blobsToForget({ faults }: DamagedImage): readonly Digest[] {
  return faults.flatMap((fault) => (fault.kind === 'blob' ? [fault.digest] : []));
}

export interface ImageToCheck {
  readonly reference: string;
  /** The digest of its manifest, or of the index above it. */
  readonly digest: Digest;
  readonly layers: readonly ExpectedLayer[];
}

/** Returns the images of all kept releases, or of `only`, each once, in the order of adoption. */
export function imagesToCheck(bundles: readonly StoredBundle[], only?: BundleId): readonly ImageToCheck[] {
  const chosen = keptBundles(bundles).filter(({ bundleId }) => only === undefined || bundleId === only);
  const images = chosen.flatMap((bundle) => bundle.contents.images.map((image) => toCheck(image, bundle)));
  return [...new Map(images.map((image) => [image.reference, image])).values()];
}

function toCheck({ reference, digest, layers }: Image, { contents }: StoredBundle): ImageToCheck {
  const imageLayers = layers.flatMap((index) => contents.layers[index] ?? []);
  return {
    reference,
    digest,
    layers: imageLayers.map((layer) => ({ digest: layer.digest, size: layer.sizeBytes, diffId: layer.diffId })),
  };
}

export interface DocumentCheckPlan extends Pick<DocumentCheck, 'releases' | 'media'> {
  readonly images: readonly Pick<ImageToCheck, 'reference' | 'digest'>[];
}

export type DocumentCheckDue =
  | { readonly kind: 'now'; readonly plan: DocumentCheckPlan }
  /** Milliseconds since the epoch. Undefined when no check follows. */
  | { readonly kind: 'later'; readonly at: number | undefined };

/** The first pause while documents are missing. The runtime may only have failed to answer. */
const LACKING_MS = 5_000;
const LACKING_GROWTH = 4;
const LACKING_MAX_MS = 5 * 60_000;
/** The first pause when documents are no longer listed: the disk may be failing. */
const GONE_MS = 60_000;

type Seen = Pick<Observed, 'media' | 'localBlobs'>;

/**
 * Covers activated releases, and ready ones with documents: an envelope may be ready without any.
 * Other releases count with the artifacts that wait for a document.
 */
export function documentCheckOf(bundles: readonly StoredBundle[], { media, localBlobs }: Seen): DocumentCheckPlan {
  const hasSome = ({ contents }: StoredBundle) => contents.images.some(({ digest }) => localBlobs.has(digest));
  const releases = bundles
    .filter((bundle) => bundle.readyAt !== undefined && !isRetired(bundle))
    .filter((bundle) => bundle.activatedAt !== undefined || hasSome(bundle));
  const lacks = ({ digest, config }: Artifact) => ![digest, config.digest].every((one) => localBlobs.has(one));
  const waiting = bundles
    .filter((bundle) => bundle.readyAt === undefined && !isRetired(bundle))
    .flatMap(({ contents }) => (contents.artifacts ?? []).filter(lacks));
  const images = [...releases.flatMap(({ contents }) => allIn(contents)), ...waiting];
  return {
    releases: [...releases.map(({ bundleId }) => bundleId), ...waiting.map(({ digest }) => digest)].join('\n'),
    media: mediaKey(media),
    images: [...new Map(images.map(({ reference, digest }) => [reference, { reference, digest }])).values()],
  };
}

/**
 * A check is due after the start of the daemon, for each new release, and when a document is no
 * longer listed or was not sent for a test pull. For missing documents it is also due when the
 * media change, or after a pause.
 */
export function documentCheckDue(
  bundles: readonly StoredBundle[],
  { now, ...seen }: Seen & Observed,
  { isRunning, last }: DocumentChecks,
  pullChecks: PullChecks | undefined,
): DocumentCheckDue {
  const plan = documentCheckOf(bundles, seen);
  if (isRunning || plan.images.length === 0) return { kind: 'later', at: undefined };
  if (last === undefined || last.releases !== plan.releases || isUnsent(pullChecks, last)) return { kind: 'now', plan };
  const waits = [
    ...(last.lacking.size === 0 ? [] : [last.media === plan.media ? lackingMs(last) : 0]),
    ...([...last.kept].every((digest) => seen.localBlobs.has(digest)) ? [] : [GONE_MS]),
  ];
  if (waits.length === 0) return { kind: 'later', at: undefined };
  const at = last.at + Math.min(...waits);
  // The time is in the future when the wall clock was set back.
  return at <= now || last.at > now ? { kind: 'now', plan } : { kind: 'later', at };
}

function lackingMs({ lackingChecks }: DocumentCheck): number {
  return Math.min(LACKING_MAX_MS, LACKING_MS * LACKING_GROWTH ** (lackingChecks - 1));
}

function isUnsent(pullChecks: PullChecks | undefined, { at }: DocumentCheck): boolean {
  const pull = pullChecks?.last;
  if (pull === undefined || pull.at <= at) return false;
  return pull.end.kind === 'not-sent' || (pull.end.kind === 'failed' && pull.end.isAsked && !pull.end.isSent);
}

function mediaKey(media: Observed['media']): string {
  return media
    .flatMap(({ mediumId, state }) =>
      state.kind === 'read'
        ? state.bundles.map((found) => `${mediumId} ${found.kind === 'verified' ? found.bundle.bundleId : ''}`)
        : [],
    )
    .sort()
    .join('\n');
}
