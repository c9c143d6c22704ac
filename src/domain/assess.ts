import { formatBytes } from '../platform/sizes.ts';
import { refuseAdoption } from './adoption.ts';
import type { Image, Layer, VerifiedBundle } from './bundle.ts';
import { bundleName, bundleTitle } from './bundle.ts';
import type { BundleId, Digest } from './digest.ts';
import { type DiskVerdict, estimateDisk } from './disk-estimate.ts';
import type { FoundBundle, Medium, MediumId, MissingBlob, Reason } from './medium.ts';
import type { PhaseOf } from './phase.ts';
import type { RuntimeImage } from './runtime-image.ts';
import type { Observed, Policy, Stored, StoredBundle, TaskFailure } from './state.ts';

/** What one round concludes about one adopted bundle. */
export interface BundleAssessment extends PhaseOf {
  readonly bundle: StoredBundle;
  /** Labels of the plugged media that carry it. */
  readonly media: readonly string[];
  readonly absentImages: readonly Image[];
  /** Present, wanted pinned, and not reported pinned. */
  readonly unpinnedImages: readonly Image[];
  /** Absent images whose missing layers are all on plugged media. */
  readonly pullableImages: readonly Image[];
  /** About what is neither present nor being pulled; undefined when nothing is known about the filesystem. */
  readonly disk: DiskVerdict | undefined;
  /** What went wrong last and is not mended, if anything. */
  readonly degraded: Reason | undefined;
  /** Whether activation is due: asked for, or by itself. */
  readonly activationDue: boolean;
}

/** A bundle on a plugged medium that is not taken. */
export interface Rejection {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly path: string;
  /** `ocp@4.13.7` once it is known that a trusted key says so. */
  readonly name: string | undefined;
  readonly bundleId: BundleId | undefined;
  readonly reason: Reason;
}

/** A verified bundle on a plugged medium that is to be adopted. */
export interface Adoption {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly found: Extract<FoundBundle, { kind: 'verified' }>;
}

/** All that one round concludes. */
export interface Assessment {
  readonly bundles: readonly BundleAssessment[];
  readonly rejections: readonly Rejection[];
  readonly adoptions: readonly Adoption[];
  /** Digests of the layers that the runtime has, as far as our bundles tell. */
  readonly presentLayers: ReadonlySet<Digest>;
}

type Verified = Extract<FoundBundle, { kind: 'verified' }>;
interface FoundOn {
  readonly medium: Medium;
  readonly found: FoundBundle;
}

/** Concludes from one observation and the stored state, without deciding what to do. */
export function assess(observed: Observed, stored: Stored, policy: Policy): Assessment {
  const found = observed.media.flatMap((medium) =>
    medium.state.kind === 'read' ? medium.state.bundles.map((bundle) => ({ medium, found: bundle })) : [],
  );
  const known = new Set(stored.bundles.map((bundle) => bundle.bundleId));
  const images = imagesByName(observed);
  const presentLayers = layersPresent(stored.bundles, images);
  const offered = blobsOffered(found);
  const bundles = stored.bundles.map((bundle) =>
    assessBundle(bundle, { observed, stored, policy, found, images, presentLayers, offered }),
  );
  return { bundles, presentLayers, ...sortUnknown(found, known, observed, stored) };
}

/** The layers of `image` that the runtime has not got. */
export function missingLayersOf(
  image: Image,
  bundle: VerifiedBundle,
  presentLayers: ReadonlySet<Digest>,
): readonly Layer[] {
  return image.layers
    .map((index) => bundle.contents.layers[index])
    .filter((layer): layer is Layer => layer !== undefined && !presentLayers.has(layer.digest));
}

/** INVARIANT: what is adopted in this round counts as adopted for what comes after it, so that no two of the same sequence get in together. */
function sortUnknown(found: readonly FoundOn[], known: ReadonlySet<BundleId>, observed: Observed, stored: Stored) {
  const rejections: Rejection[] = [];
  const adoptions: Adoption[] = [];
  for (const { medium, found: bundle } of found) {
    const where = { mediumId: medium.mediumId, label: medium.label };
    if (bundle.kind === 'rejected') {
      rejections.push({ ...where, path: bundle.path, name: undefined, bundleId: undefined, reason: bundle.reason });
      continue;
    }
    const { bundleId, payload } = bundle.bundle;
    if (known.has(bundleId) || adoptions.some((adoption) => adoption.found.bundle.bundleId === bundleId)) continue;
    const adopting = adoptions.map((adoption) => ({ ...adoption.found.bundle, adoptedAt: observed.now }));
    const reason = refuseAdoption(bundle.bundle, { ...observed, bundles: [...stored.bundles, ...adopting] });
    if (reason === undefined) adoptions.push({ ...where, found: bundle });
    else rejections.push({ ...where, path: bundle.path, name: bundleName(payload), bundleId, reason });
  }
  return { rejections, adoptions };
}

interface BundleContext {
  readonly observed: Observed;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly found: readonly FoundOn[];
  readonly images: ReadonlyMap<string, RuntimeImage> | undefined;
  readonly presentLayers: ReadonlySet<Digest>;
  readonly offered: ReadonlySet<Digest>;
}

function assessBundle(bundle: StoredBundle, context: BundleContext): BundleAssessment {
  const { images, presentLayers, offered, observed } = context;
  const absentImages = bundle.contents.images.filter((image) => images?.has(image.reference) !== true);
  const unpinnedImages = bundle.contents.images.filter(
    (image) => image.pin && images?.get(image.reference)?.pinned === false,
  );
  const pullableImages = absentImages.filter(
    (image) =>
      offered.has(image.digest) &&
      missingLayersOf(image, bundle, presentLayers).every((layer) => offered.has(layer.digest)),
  );
  const carriers = context.found.filter(
    (entry): entry is { medium: Medium; found: Verified } =>
      entry.found.kind === 'verified' && entry.found.bundle.bundleId === bundle.bundleId,
  );
  const disk = diskVerdict(bundle, absentImages, context);
  const due = activationDue(bundle, context.stored);
  const failures = openFailures(bundle, absentImages, due, observed);
  const facts = { bundle, absentImages, unpinnedImages, pullableImages, disk, carriers, failures };
  return {
    bundle,
    media: [...new Set(carriers.map((carrier) => carrier.medium.label))],
    absentImages,
    unpinnedImages,
    pullableImages,
    disk,
    degraded: worstFailure(failures),
    activationDue: due,
    ...phaseOf(facts, context),
  };
}

interface BundleFacts {
  readonly bundle: StoredBundle;
  readonly absentImages: readonly Image[];
  readonly unpinnedImages: readonly Image[];
  readonly pullableImages: readonly Image[];
  readonly disk: DiskVerdict | undefined;
  readonly carriers: readonly { medium: Medium; found: Verified }[];
  readonly failures: readonly TaskFailure[];
}

function phaseOf(facts: BundleFacts, { observed }: BundleContext): PhaseOf {
  const { bundle, absentImages, unpinnedImages } = facts;
  const reached = bundle.activatedAt !== undefined ? 'activated' : bundle.readyAt !== undefined ? 'ready' : undefined;
  if (observed.runtime.kind === 'unreachable') {
    const reason = { code: 'runtime/unreachable', message: observed.runtime.reason };
    return reached === undefined ? { phase: 'held', hold: 'runtime', reason } : { phase: reached, reason };
  }
  if (absentImages.length === 0) {
    if (unpinnedImages.length === 0) return { phase: reached ?? 'ready' };
    const reason = pinReason(facts, observed);
    if (reached !== undefined) return { phase: reached, reason };
    return reason.code === 'runtime/pins-ignored'
      ? { phase: 'held', hold: 'runtime', reason }
      : { phase: 'preloading', reason };
  }
  const isPulling = observed.running.some((task) => task.kind === 'pull' && task.bundleId === bundle.bundleId);
  const held = isPulling ? undefined : (spaceHold(facts) ?? mediaHold(facts));
  const open: PhaseOf = held ?? { phase: 'preloading' };
  return reached === 'activated' ? { phase: 'activated', reason: held?.reason ?? imagesMissing(facts) } : open;
}

/** How often the pins are asked for before it is called a fault. */
const PIN_ATTEMPTS_BEFORE_FAULT = 4;

function pinReason({ bundle, unpinnedImages }: BundleFacts, observed: Observed): Reason {
  const attempts = observed.pinsRequested?.attempts ?? 0;
  const first = unpinnedImages[0]?.reference ?? '';
  const count = `${unpinnedImages.length} of ${bundle.contents.images.length} images of ${bundleTitle(bundle.payload)}`;
  if (attempts < PIN_ATTEMPTS_BEFORE_FAULT) {
    return { code: 'runtime/pins-pending', message: `${count} are present and not pinned yet` };
  }
  return {
    code: 'runtime/pins-ignored',
    message: `${count} are present, but the runtime does not report them as pinned (first ${first}) after ${attempts} tries; look for another file that sets pinned_images and sorts after 99-stickpin.conf, and into the runtime's own journal`,
  };
}

function spaceHold({ bundle, disk }: BundleFacts): PhaseOf | undefined {
  if (disk === undefined || disk.fits) return undefined;
  const message = `needs about ${formatBytes(disk.neededBytes)} on ${disk.path}, ${formatBytes(disk.freeBytes)} free of which ${formatBytes(disk.reservedBytes)} are reserved`;
  return {
    phase: 'held',
    hold: 'space',
    reason: { code: 'engine/no-space', message: `Not enough space for ${bundleTitle(bundle.payload)}: ${message}` },
  };
}

function mediaHold(facts: BundleFacts): PhaseOf | undefined {
  const { bundle, absentImages, pullableImages, carriers, failures } = facts;
  const given = new Set(failures.filter((failure) => failure.retryAt === undefined).map(referenceOf));
  if (pullableImages.some((image) => !given.has(image.reference))) return undefined;
  const hold = (message: string, code = 'engine/no-source'): PhaseOf => ({
    phase: 'held',
    hold: 'media',
    reason: { code, message },
  });
  const present = bundle.contents.images.length - absentImages.length;
  const progress = `${present}/${bundle.contents.images.length} images`;
  if (carriers.length === 0) {
    return hold(
      `Stick removed while preloading ${bundleTitle(bundle.payload)} (${progress}). Plug it in again to continue.`,
    );
  }
  const bad = worstFailure(failures);
  if (pullableImages.length > 0 && bad !== undefined) return hold(bad.message, bad.code);
  return hold(missingMessage(facts, progress), 'bundle/blob-missing');
}

function missingMessage({ bundle, carriers, absentImages }: BundleFacts, progress: string): string {
  const missing = carriers.reduce<readonly MissingBlob[] | undefined>((fewest, { found }) => {
    return fewest === undefined || found.missing.length < fewest.length ? found.missing : fewest;
  }, undefined);
  const labels = carriers.map((carrier) => carrier.medium.label).join(', ');
  const first = missing?.[0];
  const which = first === undefined ? (absentImages[0]?.reference ?? '') : `${first.digest} (${first.why})`;
  const count = missing?.length ?? absentImages.length;
  return `${bundleTitle(bundle.payload)} on ${labels} lacks ${count} blobs, first ${which}; ${progress} present. Plug in the stick that carries them, or copy the bundle again.`;
}

function imagesMissing({ bundle, absentImages }: BundleFacts): Reason {
  return {
    code: 'engine/image-missing',
    message: `${absentImages.length} images of ${bundleTitle(bundle.payload)} are missing, first ${absentImages[0]?.reference}; plug in its stick`,
  };
}

function referenceOf(failure: TaskFailure): string {
  return failure.task.kind === 'pull' ? failure.task.reference : '';
}

/** Failures that still matter: of pulls whose image is absent, and of an activation that is due. Another bundle may have brought the image. */
function openFailures(
  { bundleId }: StoredBundle,
  absentImages: readonly Image[],
  isActivationDue: boolean,
  { failures }: Observed,
): readonly TaskFailure[] {
  const absent = new Set(absentImages.map((image) => image.reference));
  return failures
    .filter(({ task }) => task.bundleId === bundleId)
    .filter(({ task }) => (task.kind === 'pull' ? absent.has(task.reference) : isActivationDue));
}

/** The failure that a person should see: one that is not tried again by itself, else the one tried most often. */
function worstFailure(failures: readonly TaskFailure[]): Reason | undefined {
  const rank = (failure: TaskFailure) => (failure.retryAt === undefined ? Number.MAX_SAFE_INTEGER : failure.attempts);
  return [...failures].sort((a, b) => rank(b) - rank(a))[0]?.reason;
}

/**
 * Activation is due when every image is ready and either a person asked for it, or the schedule is `immediate` and nothing of the stream with a
 * higher sequence was activated before.
 */
function activationDue(bundle: StoredBundle, stored: Stored): boolean {
  const others = stored.bundles.filter((other) => other.payload.name === bundle.payload.name && other !== bundle);
  const latest = Math.max(0, ...others.map((other) => other.activatedAt ?? 0));
  if (bundle.activationRequestedAt !== undefined) {
    return (bundle.activatedAt ?? 0) < bundle.activationRequestedAt && bundle.activationRequestedAt >= latest;
  }
  if (bundle.activatedAt !== undefined || (bundle.payload.schedule ?? 'immediate') !== 'immediate') return false;
  return others.every((other) => other.activatedAt === undefined || other.payload.sequence < bundle.payload.sequence);
}

function diskVerdict(
  bundle: StoredBundle,
  absent: readonly Image[],
  { observed, policy, presentLayers }: BundleContext,
): DiskVerdict | undefined {
  if (observed.runtime.kind !== 'reachable' || observed.runtime.filesystem === undefined) return undefined;
  // What a running pull has written already lacks from the free bytes, so that counting it as needed would count it twice.
  const pulling = new Set(observed.running.map((task) => (task.kind === 'pull' ? task.reference : '')));
  const layersOf = (image: Image) => missingLayersOf(image, bundle, presentLayers);
  const underWay = new Set(absent.filter((image) => pulling.has(image.reference)).flatMap(layersOf));
  const missing = new Set(absent.flatMap(layersOf).filter((layer) => !underWay.has(layer)));
  return estimateDisk(missing, observed.runtime.filesystem, policy.minFreePercent);
}

function imagesByName(observed: Observed): ReadonlyMap<string, RuntimeImage> | undefined {
  if (observed.runtime.kind === 'unreachable') return undefined;
  return new Map(
    observed.runtime.images.flatMap((image) =>
      [...image.repoDigests, ...image.repoTags].map((name) => [name, image] as const),
    ),
  );
}

function layersPresent(
  bundles: readonly StoredBundle[],
  images: ReadonlyMap<string, RuntimeImage> | undefined,
): ReadonlySet<Digest> {
  const present = new Set<Digest>();
  for (const bundle of bundles) {
    for (const image of bundle.contents.images) {
      if (images?.has(image.reference) !== true) continue;
      for (const layer of missingLayersOf(image, bundle, present)) present.add(layer.digest);
    }
  }
  return present;
}

/** Every layer and image manifest that some plugged medium has, over all verified bundles. */
function blobsOffered(found: readonly FoundOn[]): ReadonlySet<Digest> {
  const offered = new Set<Digest>();
  for (const { found: entry } of found) {
    if (entry.kind !== 'verified') continue;
    const missing = new Set(entry.missing.map((blob) => blob.digest));
    const { layers, images } = entry.bundle.contents;
    for (const { digest } of [...layers, ...images]) if (!missing.has(digest)) offered.add(digest);
  }
  return offered;
}
