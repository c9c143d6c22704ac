import { defined } from '../../platform/defined.ts';
import { onceFor } from '../../platform/once-for.ts';
import { type RollOutState, rollOutState, turnRelease } from '../activation/fleet-gate.ts';
import type { GateContext } from '../activation/gate.ts';
import { type ActivationHold, judgeGates } from '../activation/gates.ts';
import { pathOf, placeIn, type StreamPaths } from '../activation/read-paths.ts';
import { newSignersOf, type Signers, type Withdrawal, withdrawalOf } from '../adoption/adoption.ts';
import { sequenceOf, streamClockFault } from '../adoption/floors.ts';
import type { FoundOn } from '../adoption/unknown-bundles.ts';
import { type LoadingNodes, nodesLoading, type Partition, partitionOf } from '../fleet/turn.ts';
import { type Artifact, artifactLayers, type Image, type VerifiedBundle } from '../model/bundle.ts';
import type { PhaseOf } from '../model/condition.ts';
import type { Digest } from '../model/digest.ts';
import type { RuntimeImage } from '../model/image.ts';
import type { Medium } from '../model/medium.ts';
import type { Reason, RoleShortage } from '../model/reason.ts';
import { repositoryOf } from '../model/reference.ts';
import { type BundleFacts, type Carrier, copyNeeded, lostImages, peerWaitedFor } from '../preload/hold.ts';
import { missingLayersOf } from '../preload/pull-schedule.ts';
import { type DiskVerdict, diskVerdict, type LackingRelease, spaceHold } from '../preload/space.ts';
import {
  absentArtifacts,
  artifactsToPull,
  badBlobsAfter,
  blobCarriers,
  copyableArtifacts,
  giversOf,
  type ImageSupply,
  lackingCount,
  type Supply,
  supplyImages,
  troublesOf,
} from '../preload/supply.ts';
import { isRequested, isRetired } from '../release/recorded-phase.ts';
import { isBaseOf } from '../release/retention.ts';
import type { Shares } from '../release/shares.ts';
import { foreignTag } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { BadBlob } from '../state/checks.ts';
import type { Memory, TaskFailure } from '../state/memory.ts';
import { approvalsIn, type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import { derivePhase } from './derive-phase.ts';

export interface BundleAssessment extends PhaseOf, ImageSupply, ActivationVerdict {
  readonly bundle: StoredBundle;
  /** Labels of the plugged media that carry the bundle. */
  readonly media: readonly string[];
  /** Only other nodes have it or its blobs, or carried it last. There is no stick to remove. */
  readonly isOnPeersOnly?: boolean;
  /** Only one other node names this release: no medium of this node had it. */
  readonly isOfOnePeer?: boolean;
  /** Other nodes load the bundle from this stick, so the stick has to stay. */
  readonly neededBy?: LoadingNodes | 'unknown';
  /** Other nodes lack blobs of this stick, and none of them answers. */
  readonly partition?: Partition | undefined;
  /** Set only while no other medium carries the bundle. */
  readonly waitsFor?: ReturnType<typeof peerWaitedFor>;
  /** Labels of the media that its blobs come from, even if their bundles are refused. */
  readonly blobMedia: readonly string[];
  readonly absentImages: readonly Image[];
  readonly absentArtifacts: readonly Artifact[];
  /** The node has these artifacts, and the runtime can take them. */
  readonly artifactsToPull: readonly Artifact[];
  /** A retired release lists the images that other releases pin. */
  readonly pinnedImages: readonly Image[];
  /** These images are present, and the runtime does not report them pinned. */
  readonly unpinnedImages: readonly Image[];
  /** These images are present, but may not be on the disk. */
  readonly unsyncedImages: readonly Image[];
  /** Undefined when the filesystem is unknown. */
  readonly disk: DiskVerdict | undefined;
  /** The bundle would bring its role above `max_bytes`. */
  readonly share: RoleShortage | undefined;
  readonly trouble: Reason | undefined;
  readonly degraded: Reason | undefined;
  readonly badBlobs: readonly BadBlob[];
  /** Why the bundle is no longer trusted. Then it is neither pulled nor served nor activated. */
  readonly withdrawn: Reason | undefined;
  /** Set when plugged media show more signers than are stored. */
  readonly newSigners: Signers | undefined;
}

export interface BundleContext {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
  readonly policy: Policy;
  readonly found: readonly FoundOn[];
  readonly images: ReadonlyMap<string, RuntimeImage> | undefined;
  readonly presentLayers: ReadonlySet<Digest>;
  readonly supply: Supply;
  readonly paths: StreamPaths;
  readonly shares: Shares;
}

export function assessBundle(bundle: StoredBundle, context: BundleContext): BundleAssessment {
  const { observed, memory, stored, policy } = context;
  const images = imagesOf(bundle, context);
  const approvals = approvalsIn(stored, policy);
  const withdrawal = withdrawalOf(bundle, observed, approvals);
  const activation = assessActivation(bundle, {
    policy,
    path: pathOf(context.paths, bundle.payload.name),
    now: observed.now,
    facts: observed.facts,
    clockFault: streamClockFault(bundle, { ...observed, bundles: stored.bundles }),
    clockSynchronised: observed.clockSynchronised,
    withdrawn: withdrawal?.reason.code,
    absentImages: lackingCount(images),
    bundles: stored.bundles,
    foreignTag: foreignTag(bundle, stored.bundles),
    imageUses: observed.imageUses,
    fleet: observed.fleet,
    sightings: observed.sightings,
    pauses: stored.pauses,
    ...memory,
  });
  const failures = isRetired(bundle) ? [] : openFailures(bundle, images.absentImages, activation.activationDue, memory);
  const facts = factsOf(bundle, images, failures, withdrawal === undefined, context);
  const { carriers } = facts;
  const phase = derivePhase(facts, withdrawal, context);
  const isLoaded = withdrawal === undefined && !isRetired(bundle) && bundle.cancelled === undefined;
  const givers = isLoaded ? giversOf(facts, context.found, observed.localBlobs) : blobCarriers(carriers);
  return {
    bundle,
    media: labelsOf(carriers),
    ...peersOf(facts, givers),
    ...(isWithheld(phase) || isKept(bundle, images, observed) ? {} : neededBy({ bundle, carriers }, context)),
    blobMedia: labelsOf(givers),
    ...images,
    artifactsToPull: artifactsToPull(bundle, images.absentArtifacts, observed.runtime),
    pullableImages: facts.pullableImages,
    onlineImages: facts.onlineImages,
    mirroredImages: facts.mirroredImages,
    disk: facts.disk,
    share: facts.share,
    ...faultsOf(facts, withdrawal, observed),
    badBlobs: facts.badBlobs,
    ...activation,
    withdrawn: withdrawal?.reason,
    newSigners: newSignersOf(bundle, carriers, withdrawal === undefined),
    ...phase,
  };
}

/** Other nodes don't get a bundle that this node does not trust. */
function isWithheld({ phase, hold }: PhaseOf): boolean {
  return phase === 'rejected' || hold === 'approval';
}

/** Returns the releases that must fit beside this one: those before it on the path, or all. */
function aheadOf(bundle: StoredBundle, context: BundleContext): readonly LackingRelease[] {
  const { route } = pathOf(context.paths, bundle.payload.name);
  const at = route.findIndex(({ id }) => id === bundle.bundleId);
  const ids = new Set((at < 0 ? route : route.slice(0, at)).map(({ id }) => id));
  return context.stored.bundles
    .filter((other) => ids.has(other.bundleId) && !isRetired(other) && other.cancelled === undefined)
    .map((other) => ({ bundle: other, absentImages: imagesOf(other, context).absentImages }));
}

type BundleImages = Pick<
  BundleAssessment,
  'absentImages' | 'absentArtifacts' | 'pinnedImages' | 'unpinnedImages' | 'unsyncedImages'
>;

function imagesOf(bundle: StoredBundle, { images, memory, observed }: BundleContext): BundleImages {
  const absentImages = bundle.contents.images.filter(
    (image) => images?.has(image.reference) !== true || isHeldByTagAlone(image, images, memory),
  );
  const absent = new Set(absentImages);
  const isPinned = ({ reference }: Image) => images?.get(reference)?.pinned === true;
  const present = bundle.contents.images.filter((image) => image.pin && !absent.has(image));
  const { synced } = memory.storage ?? {};
  const isUnsynced = (image: Image) => synced?.has(image.reference) === false && !absent.has(image);
  return {
    absentImages,
    absentArtifacts: absentArtifacts(bundle, observed.localBlobs),
    pinnedImages: present.filter(isPinned),
    unpinnedImages: isRetired(bundle) ? [] : present.filter((image) => !isPinned(image)),
    unsyncedImages: isRetired(bundle) ? [] : bundle.contents.images.filter(isUnsynced),
  };
}

function peersOf(
  { carriers, lastCarrier }: BundleFacts,
  givers: readonly FoundOn[],
): Pick<BundleAssessment, 'isOnPeersOnly' | 'isOfOnePeer' | 'waitsFor'> {
  const areOfPeers = (those: readonly FoundOn[]) => those.length > 0 && those.every(({ medium }) => medium.peer);
  const all = [...carriers, ...givers];
  const isOnPeersOnly = all.length === 0 ? lastCarrier?.isPeer === true : areOfPeers(all);
  const isOfOne = new Set(all.map(({ medium }) => medium.mediumId)).size < 2 && lastCarrier?.wasOnStick !== true;
  return defined({
    isOnPeersOnly: isOnPeersOnly || undefined,
    isOfOnePeer: (isOnPeersOnly && isOfOne) || undefined,
    waitsFor: areOfPeers(carriers) ? peerWaitedFor(carriers.map(({ medium }) => medium)) : undefined,
  });
}

function labelsOf(those: readonly FoundOn[]): readonly string[] {
  return [...new Set(those.map(({ medium }) => medium.label))];
}

/** A bundle on a stick. Other nodes also get a refused one. */
interface GivenBundle {
  readonly bundle: VerifiedBundle & Pick<StoredBundle, 'readyAt'>;
  readonly carriers: readonly { readonly medium: Medium }[];
}

/** Returns the nodes that need this stick: without it this node could not give them the bundle. */
export function neededBy(
  { bundle, carriers }: GivenBundle,
  { observed, memory, policy, stored }: BundleContext,
): Pick<BundleAssessment, 'neededBy' | 'partition'> {
  const { fleet, now } = observed;
  const { enabled, serve, except, absent } = policy.fleet;
  const isGiven = serve && !except.includes(bundle.payload.name) && carriers.some(({ medium }) => !medium.peer);
  if (!isGiven) return {};
  if (fleet === undefined) return enabled ? { neededBy: 'unknown' } : {};
  // A stick that comes back later serves nodes that joined meanwhile.
  const arrivedAt = carriers.map(({ medium }) => memory.arrivals.get(medium.mediumId)?.at ?? now);
  const isLong = fleet.search === 'long' && now >= Math.max(bundle.readyAt ?? now, ...arrivedAt) + absent;
  const release = turnRelease(bundle, stored.bundles);
  const nodes = nodesLoading(release, fleet, isLong);
  const partition = nodesLoading(release, fleet, false) && partitionOf(fleet);
  return defined({ neededBy: nodes, partition });
}

/** Whether all blobs of an adopted bundle are on the node's disk, or in the runtime's storage. */
function isKept(
  { contents }: StoredBundle,
  { absentImages }: BundleImages,
  { localBlobs, runtime }: Observed,
): boolean {
  const { images, layers, artifacts = [] } = contents;
  const isInRuntime = runtime.kind === 'reachable' && runtime.layerStorage === 'both' && absentImages.length === 0;
  const outsideBase = layers.filter(({ inBase }) => inBase !== true);
  const wanted = [
    ...images,
    ...artifacts,
    ...artifacts.map(({ config }) => config),
    ...(isInRuntime ? artifactLayers(contents) : outsideBase),
  ];
  return wanted.every(({ digest }) => localBlobs.has(digest));
}

function factsOf(
  bundle: StoredBundle,
  images: BundleImages,
  failures: readonly TaskFailure[],
  isTrusted: boolean,
  context: BundleContext,
): BundleFacts & ImageSupply {
  const { observed, memory, stored, supply, presentLayers } = context;
  const { absentImages } = images;
  const { localBlobs } = observed;
  const carriers = carriersOf(bundle, context.found);
  const sources = isTrusted
    ? supplyImages(bundle, absentImages, { supply, presentLayers, online: context.policy.preload.online })
    : NO_SUPPLY;
  const isDelta = bundle.payload.update?.base !== undefined;
  const base = isDelta ? stored.bundles.find((other) => isBaseOf(other, bundle)) : undefined;
  const lacking = lackingOfBaseIn(bundle, absentImages, sources, context);
  const seen = { bundle, ...images, presentLayers, carriers, failures, localBlobs };
  const isKnown = observed.runtime.kind === 'reachable' && !isRetired(bundle);
  return {
    ...seen,
    ...sources,
    copyableArtifacts: isTrusted ? copyableArtifacts(images.absentArtifacts, bundle, supply) : [],
    lackingOfBase: lacking.size,
    baseHolders: holdersOf(lacking, bundle, stored.bundles),
    base,
    isBaseRetired: base !== undefined && isRetired(base),
    availableBlobs: supply.availableBlobs,
    isExhaustedBundle: memory.exhaustedBundles.includes(bundle.bundleId),
    lastCarrier: memory.lastCarriers.get(bundle.bundleId),
    media: observed.media,
    areMediaUnread: memory.areMediaUnread,
    disk: diskVerdict({ bundle, absentImages }, lackingCount(images) === 0 ? [] : aheadOf(bundle, context), context),
    share: context.shares.short.get(bundle.bundleId),
    badBlobs: isKnown ? badBlobsAfter(seen) : (bundle.badBlobs ?? []),
  };
}

function faultsOf(
  facts: BundleFacts,
  withdrawal: Withdrawal | undefined,
  observed: Observed,
): Pick<BundleAssessment, 'trouble' | 'degraded'> {
  const { bundle, failures } = facts;
  const isKnown = observed.runtime.kind === 'reachable' && !isRetired(bundle);
  const troubles = troublesOf(bundle, failures, isRetired(bundle) ? undefined : configFaultOf(bundle, observed));
  const copy = isKnown ? copyNeeded(facts) : undefined;
  const lost = isKnown ? lostImages(facts) : undefined;
  return {
    trouble: troubles.trouble ?? noRoomToTake(facts, observed),
    degraded: withdrawal?.reason ?? lost ?? copy ?? troubles.degraded,
  };
}

/** The runtime can't take artifacts of a complete release. That does not hold the release. */
function noRoomToTake(facts: BundleFacts, { runtime, now }: Observed): Reason | undefined {
  const { bundle, absentArtifacts } = facts;
  if (isRetired(bundle) || lackingCount(facts) > 0) return undefined;
  if (artifactsToPull(bundle, absentArtifacts, runtime).length === 0) return undefined;
  return spaceHold(facts, { failures: [] }, now)?.reason;
}

export function carriersOf({ bundleId }: StoredBundle, all: readonly FoundOn[]): readonly Carrier[] {
  return carriersIn(all).get(bundleId) ?? [];
}

const carriersIn = onceFor((all: readonly FoundOn[]) =>
  Map.groupBy(
    all.flatMap(({ medium, found }) => (found.kind === 'verified' ? [{ medium, found }] : [])),
    ({ found }) => found.bundle.bundleId,
  ),
);

/** Returns layers that a delta leaves to its base and that no source has. */
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

/** Returns known bundles with all these layers, the base first. A delta as base may lack them. */
function holdersOf(
  layers: ReadonlySet<Digest>,
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
): readonly StoredBundle[] {
  if (layers.size === 0) return [];
  const holders = bundles.filter((other) => {
    const stored = new Set(other.contents.layers.flatMap(({ digest, inBase }) => (inBase === true ? [] : [digest])));
    return other.bundleId !== bundle.bundleId && [...layers].every((digest) => stored.has(digest));
  });
  const isBase = (one: StoredBundle) => Number(isBaseOf(one, bundle));
  return [...holders].sort((a, b) => isBase(b) - isBase(a));
}

const NO_SUPPLY: ImageSupply = { pullableImages: [], onlineImages: [], mirroredImages: [] };

/**
 * CRI-O lists such an image with a computed digest, which no pin holds. A pull by digest repairs
 * it.
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

function configFaultOf({ contents }: StoredBundle, { runtime }: Observed): Reason | undefined {
  if (runtime.kind !== 'reachable') return undefined;
  const { pinFault, hiddenMirrors } = runtime;
  if (pinFault !== undefined && contents.images.some((image) => image.pin)) return pinFault;
  const hidden = new Set(hiddenMirrors?.repositories);
  const names = contents.images.flatMap(({ reference, tags }) => [reference, ...tags]);
  return names.some((name) => hidden.has(repositoryOf(name))) ? hiddenMirrors?.fault : undefined;
}

function openFailures(
  { bundleId, contents }: StoredBundle,
  absentImages: readonly Image[],
  isActivationDue: boolean,
  { failures }: Memory,
): readonly TaskFailure[] {
  // A runtime that takes artifacts lists them, too.
  const absent = new Set([...absentImages, ...(contents.artifacts ?? [])].map(({ reference }) => reference));
  return failures.filter(({ task }) =>
    task.kind === 'pull'
      ? absent.has(task.reference)
      : task.kind === 'activate' && isActivationDue && task.bundleId === bundleId,
  );
}

interface ActivationVerdict {
  /** The activation is wanted, and no gate holds it or only delays it. Images may be missing. */
  readonly activationDue: boolean;
  readonly isRequested?: boolean;
  readonly holds: readonly ActivationHold[];
  readonly rollOut: RollOutState | undefined;
  /** When a gate may change its verdict, in milliseconds since the epoch. */
  readonly checkAgainAt: number | undefined;
}

type ActivationContext = Omit<GateContext, 'bundle'>;

function assessActivation(bundle: StoredBundle, context: ActivationContext): ActivationVerdict {
  const { holds, checkAgainAt } = judgeGates({ ...context, bundle });
  const isFree = holds.every(({ keepsDue }) => keepsDue === true);
  const activationDue = isFree && isWanted(bundle, context);
  const waits = isWanted(bundle, context) && holds.every(({ gate, keepsDue }) => gate === 'fleet' || keepsDue === true);
  const rollOut = rollOutState({ ...context, bundle, isDue: activationDue, waits });
  return { activationDue, isRequested: isRequested(bundle, context.bundles), holds, rollOut, checkAgainAt };
}

/**
 * Whether to activate a release once no gate holds it. It was requested and nothing of its stream
 * was activated since; or it was never activated and nothing with a higher sequence was, unless a
 * downgrade is allowed.
 */
function isWanted(bundle: StoredBundle, { bundles, path }: ActivationContext): boolean {
  if (isRetired(bundle)) return false;
  if (bundle.activationRequestedAt !== undefined) return isRequested(bundle, bundles);
  if (bundle.activatedAt !== undefined) return false;
  if (path.allowDowngrade && placeIn(path, bundle).isLate === true) return true;
  return activatedIn(ofStream(bundles, bundle.payload.name)).every((other) => sequenceOf(other) < sequenceOf(bundle));
}

const activatedIn = onceFor((bundles: readonly StoredBundle[]) =>
  bundles.filter(({ activatedAt }) => activatedAt !== undefined),
);
