import { floorHold, isAboveFloor } from '../adoption/floors.ts';
import { newSignersOf, type Signers } from '../adoption/signers.ts';
import { withdrawalOf } from '../adoption/trust-withdrawal.ts';
import { type FoundOn, sortUnknown, type UnknownBundles } from '../adoption/unknown-bundles.ts';
import { judgeRules, type RuleVerdict, ruleTime } from '../gates/unenforced-rules.ts';
import type { Image } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { Reason } from '../model/medium.ts';
import type { PhaseOf } from '../model/phase.ts';
import type { RenderedMirrors, RuntimeImage } from '../model/runtime-image.ts';
import { badBlobsAfter } from '../preload/bad-blobs-seen.ts';
import type { DiskVerdict, ShortageKind } from '../preload/disk-estimate.ts';
import { type Carrier, copyNeeded, lostImages } from '../preload/hold.ts';
import { missingLayersOf } from '../preload/missing-layers.ts';
import { diskVerdict } from '../preload/space.ts';
import { type ImageSupply, type Supply, supplyImages, supplyOf } from '../preload/supply.ts';
import { assessLife, type LifeAssessment, type ShortOfSpace } from '../release/lifecycle.ts';
import { isRetired } from '../release/recorded-phase.ts';
import { type ProtectedRelease, protectedReleases } from '../release/retention.ts';
import { neverActivated, streamsInMotion } from '../release/seen-running.ts';
import { assessTags, type TagAssessment } from '../release/tags.ts';
import { assessPins, type PinAssessment } from '../release/unclaimed-pins.ts';
import { type BadBlob, flawedAmong } from '../state/bad-blob.ts';
import type { Memory, TaskFailure } from '../state/memory.ts';
import type { Observed, Policy, Stored, StoredBundle } from '../state/state.ts';
import { isRelease, type NoticeTakings, noticeTakings } from '../trust/notice.ts';
import { troublesOf } from './degraded.ts';
import { derivePhase } from './derive-phase.ts';

/** What one round concludes about one adopted bundle. */
export interface BundleAssessment extends PhaseOf, ImageSupply {
  readonly bundle: StoredBundle;
  /** Labels of the plugged media that carry it. */
  readonly media: readonly string[];
  /** Labels of those of them that carry blobs of it. */
  readonly blobMedia: readonly string[];
  readonly absentImages: readonly Image[];
  /** Present, wanted pinned, and not reported pinned. */
  readonly unpinnedImages: readonly Image[];
  /** About what is neither present nor being pulled; undefined when nothing is known about the filesystem. */
  readonly disk: DiskVerdict | undefined;
  /** What went wrong last and is not mended, if anything. */
  readonly trouble: Reason | undefined;
  /** What quick tries could not mend. */
  readonly degraded: Reason | undefined;
  /** What is known to be damaged or lacking of it on the media that were seen. */
  readonly badBlobs: readonly BadBlob[];
  /** Whether activation is due: asked for, or by itself, and no rule holds it. */
  readonly activationDue: boolean;
  /** What the rules of its payload say about its activation. */
  readonly rules: RuleVerdict;
  /** Why it is not activated by itself, as far as floors say. */
  readonly floorHold: Reason | undefined;
  /** Why it is not trusted any more, if so: it is neither pulled nor served nor activated then. */
  readonly withdrawn: Reason | undefined;
  /** Who signed it, as far as plugged media show more than is stored. */
  readonly newSigners: Signers | undefined;
}

/** What one round concludes about an adopted bundle without images. */
export interface NoticeAssessment {
  readonly bundle: StoredBundle;
  /** Why it is not trusted any more, if so: its advisories don't count then. */
  readonly withdrawn: Reason | undefined;
  /** What is in force of it. */
  readonly taken: NoticeTakings;
  /** Who signed it, as far as plugged media show more than is stored. */
  readonly newSigners: Signers | undefined;
}

/** All that one round concludes. */
export interface Assessment extends UnknownBundles {
  /** Adopted releases. */
  readonly bundles: readonly BundleAssessment[];
  /** Adopted bundles without images: there is nothing to preload or activate. */
  readonly notices: readonly NoticeAssessment[];
  /** Digests of the layers that the runtime has, as far as our bundles tell. */
  readonly presentLayers: ReadonlySet<Digest>;
  readonly mirrors: RenderedMirrors;
  readonly tags: TagAssessment;
  readonly pins: PinAssessment;
  /** Bundles that lack space which older releases may give up. */
  readonly short: readonly ShortOfSpace[];
  /** What comes after activation. */
  readonly life: LifeAssessment;
  /** Releases that the settings keep for good. */
  readonly protectedReleases: readonly ProtectedRelease[];
}

/** Concludes from one observation, what the engine remembers and the stored state, without deciding what to do. */
export function assess(observed: Observed, memory: Memory, stored: Stored, policy: Policy): Assessment {
  const found = observed.media.flatMap((medium) =>
    medium.state.kind === 'read' ? medium.state.bundles.map((bundle) => ({ medium, found: bundle })) : [],
  );
  const known = new Set(stored.bundles.map((bundle) => bundle.bundleId));
  const images = imagesByName(observed);
  const presentLayers = layersPresent(stored.bundles, images);
  const supply = supplyOf(
    found.map((entry) => entry.found),
    observed.localBlobs,
  );
  const assessed = stored.bundles
    .filter(isRelease)
    .map((bundle) => assessBundle(bundle, { observed, memory, stored, policy, found, images, presentLayers, supply }));
  const tags = assessTags(assessed, observed, memory);
  const bundles = assessed.map((entry) => withTrouble(entry, tags.troubles.get(entry.bundle.bundleId)));
  const approvals = { policy: policy.trust, verdicts: stored.verdicts };
  const notices = stored.bundles
    .filter((bundle) => !isRelease(bundle))
    .map((bundle) => ({
      bundle,
      withdrawn: withdrawalOf(bundle, observed.revocations, approvals)?.reason,
      taken: noticeTakings(bundle, stored.rotation),
      newSigners: newSignersOf(bundle, carriersOf(bundle, found)),
    }));
  const releases = { ...stored, bundles: bundles.map(({ bundle }) => bundle) };
  const short = shortOfSpace(bundles, observed);
  const pins = pinsFrom(observed, memory, releases);
  const life = assessLife(
    observed,
    memory,
    releases,
    { short, waiting: waitingOf(bundles, memory), unclaimed: pins.unclaimed },
    policy,
  );
  return {
    bundles,
    notices,
    presentLayers,
    mirrors: mirrorsIn(observed),
    tags,
    pins,
    short,
    life,
    protectedReleases: protectedReleases(releases, policy.lifecycle),
    ...sortUnknown(found, known, observed, memory, stored, policy, new Set(pins.unclaimed)),
  };
}

function pinsFrom({ runtime }: Observed, { pinLedger }: Memory, { bundles, age }: Stored): PinAssessment {
  const unknown = { origin: '', revision: 0 };
  return assessPins({ bundles, ledger: pinLedger, runtime, age: age ?? pinLedger?.state ?? unknown });
}

/** What is wrong with tags matters where nothing else does. */
function withTrouble(entry: BundleAssessment, reason: Reason | undefined): BundleAssessment {
  if (reason === undefined) return entry;
  return { ...entry, trouble: entry.trouble ?? reason, degraded: entry.degraded ?? reason };
}

/** Releases that nothing keeps from being activated but that nobody has asked for it. */
function waitingOf(bundles: readonly BundleAssessment[], { floors }: Memory): readonly StoredBundle[] {
  const inMotion = streamsInMotion(bundles);
  const isReady = new Set(bundles.filter(({ phase, reason }) => phase === 'ready' && reason === undefined));
  const waiting = new Set(neverActivated(bundles.map(({ bundle }) => bundle)));
  return [...isReady].flatMap(({ bundle }) =>
    waiting.has(bundle) && !inMotion.has(bundle.payload.name) && isAboveFloor(bundle, floors) ? [bundle] : [],
  );
}

/**
 * Bundles whose preload is held for lack of space that removing images would give. On another filesystem, where blobs are staged, it gives none; and
 * where a disk filled up although the images fit on theirs, with blobs staged on another one, nobody knows that it would.
 */
function shortOfSpace(
  bundles: readonly BundleAssessment[],
  { runtime }: Pick<Observed, 'runtime'>,
): readonly ShortOfSpace[] {
  const isStagedElsewhere = runtime.kind === 'reachable' && typeof runtime.staging === 'object';
  return bundles.flatMap(({ bundle, disk, hold }) => {
    if (hold !== 'space') return [];
    const shortages = disk?.shortages ?? [];
    if (shortages.some(({ kind }) => kind === 'staging')) return [];
    if (shortages.length === 0) return isStagedElsewhere ? [] : [{ bundle, lacking: { bytes: 1, inodes: 0 } }];
    const of = (wanted: ShortageKind) => shortages.find(({ kind }) => kind === wanted)?.lacking ?? 0;
    return [{ bundle, lacking: { bytes: of('bytes'), inodes: of('inodes') } }];
  });
}

interface BundleContext {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly found: readonly FoundOn[];
  readonly images: ReadonlyMap<string, RuntimeImage> | undefined;
  readonly presentLayers: ReadonlySet<Digest>;
  readonly supply: Supply;
}

function assessBundle(bundle: StoredBundle, context: BundleContext): BundleAssessment {
  const { images: present, presentLayers, supply, observed, memory } = context;
  const absentImages = bundle.contents.images.filter(
    (image) => present?.has(image.reference) !== true || isHeldByTagAlone(image, present, memory),
  );
  const absent = new Set(absentImages);
  const unpinnedImages = bundle.contents.images.filter(
    (image) => image.pin && !isRetired(bundle) && present?.get(image.reference)?.pinned === false && !absent.has(image),
  );
  const { online } = context.policy;
  const approvals = { policy: context.policy.trust, verdicts: context.stored.verdicts };
  const withdrawal = withdrawalOf(bundle, observed.revocations, approvals);
  const supplied = supplyImages(bundle, absentImages, { supply, presentLayers, online });
  const sources = withdrawal === undefined ? supplied : NO_SUPPLY;
  const carriers = carriersOf(bundle, context.found);
  const disk = diskVerdict(bundle, absentImages, context);
  const time = { now: ruleTime(context.stored.bundles, observed.now), isSynchronised: observed.clockSynchronised };
  const rules = judgeRules(bundle, time);
  const due = withdrawal === undefined && rules.holds.length === 0 && activationDue(bundle, context.stored, memory);
  const failures = isRetired(bundle) ? [] : openFailures(bundle, absentImages, due, memory);
  const baseFacts = {
    lackingOfBase: lackingOfBaseIn(bundle, absentImages, sources, context).size,
    base: context.stored.bundles.find((other) => other.bundleId === bundle.payload.update?.base),
  };
  const images = { absentImages, unpinnedImages, ...sources };
  const { localBlobs, runtime } = observed;
  const isKnown = runtime.kind === 'reachable' && !isRetired(bundle);
  const seen = { bundle, absentImages, presentLayers, carriers, failures, localBlobs };
  const badBlobs = isKnown ? badBlobsAfter(seen) : (bundle.badBlobs ?? []);
  const facts = {
    ...seen,
    ...images,
    ...baseFacts,
    availableBlobs: supply.availableBlobs,
    isExhaustedBundle: memory.exhaustedBundles.includes(bundle.bundleId),
    lastCarrier: memory.lastCarriers.get(bundle.bundleId),
    media: observed.media,
    isLooking: memory.isLooking,
    disk,
    badBlobs,
  };
  const lost = isRetired(bundle) || observed.runtime.kind !== 'reachable' ? undefined : lostImages(facts);
  const troubles = troublesOf(bundle, failures, isRetired(bundle) ? undefined : pinFaultOf(bundle, observed));
  return {
    bundle,
    media: [...new Set(carriers.map((carrier) => carrier.medium.label))],
    blobMedia: [
      ...new Set(carriers.filter(({ found }) => found.isEnvelope !== true).map((carrier) => carrier.medium.label)),
    ],
    absentImages,
    unpinnedImages,
    ...sources,
    disk,
    ...troubles,
    ...(isKnown && flawedAmong(badBlobs).length > 0 && { degraded: copyNeeded(facts) }),
    ...(lost !== undefined && { degraded: lost }),
    ...(withdrawal !== undefined && { degraded: withdrawal.reason }),
    badBlobs,
    activationDue: due,
    rules,
    floorHold: floorHold(bundle, memory.floors),
    withdrawn: withdrawal?.reason,
    newSigners: newSignersOf(bundle, carriers),
    ...derivePhase(facts, withdrawal, context),
  };
}

function carriersOf({ bundleId }: StoredBundle, all: readonly FoundOn[]): readonly Carrier[] {
  return all.flatMap(({ medium, found }) =>
    found.kind === 'verified' && found.bundle.bundleId === bundleId ? [{ medium, found }] : [],
  );
}

/** Layers that a delta leaves to its base and that nobody has, of absent images that don't come from their own registries. */
function lackingOfBaseIn(
  bundle: StoredBundle,
  absent: readonly Image[],
  { onlineImages }: ImageSupply,
  { presentLayers, supply }: BundleContext,
): ReadonlySet<Digest> {
  if (!bundle.contents.layers.some(({ inBase }) => inBase)) return new Set();
  const online = new Set(onlineImages);
  const missing = absent
    .filter((image) => !online.has(image))
    .flatMap((image) => missingLayersOf(image, bundle, presentLayers));
  const lacking = missing.filter(({ inBase, digest }) => inBase && !supply.availableBlobs.has(digest));
  return new Set(lacking.map(({ digest }) => digest));
}

/** A bundle that is not trusted any more is pulled from nowhere. */
const NO_SUPPLY: ImageSupply = { pullableImages: [], onlineImages: [], mirroredImages: [] };

/**
 * Whether CRI-O has the image by a tag alone: it then lists a digest that it works out on the fly, and no pin of that digest holds. It is pulled
 * by digest once, which fetches no layer, since they are all there.
 */
function isHeldByTagAlone(
  image: Image,
  images: ReadonlyMap<string, RuntimeImage> | undefined,
  { unenforcedPins }: Memory,
): boolean {
  const found = images?.get(image.reference);
  if (!image.pin || found === undefined || found.pinned || found.repoTags.length === 0) return false;
  return unenforcedPins.includes(image.reference);
}

/** What takes pins away although they are rendered, as far as the bundle has any. */
function pinFaultOf({ contents }: StoredBundle, { runtime }: Observed): Reason | undefined {
  return runtime.kind === 'reachable' && contents.images.some((image) => image.pin) ? runtime.pinFault : undefined;
}

/** Failures that still matter: of pulls whose image is absent, and of an activation that is due. Another bundle may have brought the image. */
function openFailures(
  { bundleId }: StoredBundle,
  absentImages: readonly Image[],
  isActivationDue: boolean,
  { failures }: Memory,
): readonly TaskFailure[] {
  const absent = new Set(absentImages.map((image) => image.reference));
  return failures
    .filter(({ task }) => task.bundleId === bundleId)
    .filter(({ task }) =>
      task.kind === 'pull' ? absent.has(task.reference) : task.kind === 'activate' && isActivationDue,
    );
}

/**
 * Activation is due when every image is ready and either a person asked for it, or the schedule is `immediate` and nothing of the stream with a
 * higher sequence was activated before, also as far as only the floors remember it.
 */
function activationDue(bundle: StoredBundle, stored: Stored, { floors }: Memory): boolean {
  if (isRetired(bundle)) return false;
  const others = stored.bundles.filter((other) => other.payload.name === bundle.payload.name && other !== bundle);
  const latest = Math.max(0, ...others.map((other) => other.activatedAt ?? 0));
  if (bundle.activationRequestedAt !== undefined) {
    return (bundle.activatedAt ?? 0) < bundle.activationRequestedAt && bundle.activationRequestedAt >= latest;
  }
  if (bundle.activatedAt !== undefined || (bundle.payload.schedule ?? 'immediate') !== 'immediate') return false;
  if (!isAboveFloor(bundle, floors)) return false;
  return others.every((other) => other.activatedAt === undefined || other.payload.sequence < bundle.payload.sequence);
}

function mirrorsIn({ runtime }: Observed): RenderedMirrors {
  if (runtime.kind !== 'reachable') return { repositories: [], takeEffect: 'at-once' };
  return { repositories: runtime.renderedMirrors, takeEffect: runtime.mirrorsTakeEffect ?? 'at-once' };
}

function imagesByName(observed: Observed): ReadonlyMap<string, RuntimeImage> | undefined {
  if (observed.runtime.kind !== 'reachable') return undefined;
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
