import { pausesAfter } from '../activation/fleet-gate.ts';
import { readPaths, type StreamPaths } from '../activation/read-paths.ts';
import { type NextWindows, nextWindows } from '../activation/timing-gates.ts';
import { awaitsPerson, newSignersOf, type Signers, withdrawalOf } from '../adoption/adoption.ts';
import { isAboveFloor } from '../adoption/floors.ts';
import { type Adoption, type Rejection, sortUnknown, type UnknownBundles } from '../adoption/unknown-bundles.ts';
import type { Pause } from '../fleet/pause.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import { type RenderedMirrors, type RuntimeImage, usableImages } from '../model/image.ts';
import type { Reason, ShortOf } from '../model/reason.ts';
import { missingLayersOf } from '../preload/pull-schedule.ts';
import { type Supply, supplyOf } from '../preload/supply.ts';
import { type DamagedImage, damagedImages } from '../release/damaged-images.ts';
import { assessLifecycle, type LifecycleAssessment } from '../release/lifecycle.ts';
import { type KeptWhy, whyKept } from '../release/retention.ts';
import { type ProtectedRelease, protectedReleases, type ShortOfSpace } from '../release/room.ts';
import { neverActivated, runningReleases, streamsInMotion } from '../release/running-releases.ts';
import { assessShares } from '../release/shares.ts';
import { assessTags, type TagAssessment } from '../release/tags.ts';
import { assessPins, type PinAssessment } from '../release/unclaimed-pins.ts';
import { provableReleases, type Whole, wholeReleases } from '../release/whole.ts';
import type { Policy } from '../settings/settings.ts';
import { NO_CHECKS } from '../state/checks.ts';
import type { Memory } from '../state/memory.ts';
import type { PastSpeaker } from '../state/past.ts';
import { approvalsIn, type Observed, type Stored, type StoredBundle } from '../state/state.ts';
import type { Approvals, RejectedName } from '../trust/approval.ts';
import { isRelease, type NoticeResult, noticeResult } from '../trust/trust-in-force.ts';
import { assessBundle, type BundleAssessment, type BundleContext, carriersOf, neededBy } from './assess-bundle.ts';
import { assessPulls, damageReasons, documentReasons, type PullAssessment } from './assess-images.ts';
import { assessOrder, type OrderAssessment } from './assess-order.ts';

export interface NoticeAssessment {
  readonly bundle: StoredBundle;
  /** Why the notice is no longer trusted. Its advisories don't count then. */
  readonly withdrawn: Reason | undefined;
  readonly taken: NoticeResult;
  readonly newSigners: Signers | undefined;
}

export interface Assessment extends UnknownBundles {
  readonly bundles: readonly BundleAssessment[];
  /** Adopted bundles that have no images. */
  readonly notices: readonly NoticeAssessment[];
  readonly presentLayers: ReadonlySet<Digest>;
  readonly mirrors: RenderedMirrors;
  readonly tags: TagAssessment;
  readonly pins: PinAssessment;
  readonly pulls: PullAssessment;
  readonly damaged: readonly DamagedImage[];
  readonly paths: StreamPaths;
  readonly next: OrderAssessment['next'];
  readonly short: readonly ShortOfSpace[];
  readonly life: LifecycleAssessment;
  readonly whole: Whole;
  readonly provable: Whole;
  readonly protectedReleases: readonly ProtectedRelease[];
  /** Lists each activated release that is not the current one. */
  readonly kept: ReadonlyMap<BundleId, KeptWhy>;
  readonly rejectedNames: readonly RejectedName[];
  /** Includes the pauses that were heard now. */
  readonly pauses: readonly Pause[];
  readonly windows: NextWindows | undefined;
  readonly clockSynchronised: boolean;
}

export function assess(observed: Observed, memory: Memory, recorded: Stored, policy: Policy): Assessment {
  const stored = { ...recorded, pauses: pausesAfter({ ...recorded, ...observed, policy }) };
  const found = observed.media.flatMap((medium) =>
    medium.state.kind === 'read' ? medium.state.bundles.map((bundle) => ({ medium, found: bundle })) : [],
  );
  const known = new Set(stored.bundles.map((bundle) => bundle.bundleId));
  const images = imagesByName(observed);
  const presentLayers = layersPresent(stored.bundles, images);
  const supply = supplyOf(
    // A node that serves others can't give blobs now.
    found.filter(({ medium }) => medium.peer?.isReady !== false).map((entry) => entry.found),
    observed.localBlobs,
  );
  const releases = stored.bundles.filter(isRelease);
  const pins = assessPins({
    bundles: releases,
    ledger: memory.pinLedger,
    runtime: observed.runtime,
  });
  const unknown = sortUnknown(found, known, observed, memory, stored, policy, new Set(pins.unclaimed));
  const paths = assessPaths(observed, stored, unknown.adoptions, policy);
  const shares = assessShares(releases, { observed, policy, isTrusted: trustNow(observed, stored, policy) });
  const context = { observed, memory, stored, policy, found, images, presentLayers, supply, paths, shares };
  const assessed = releases.map((bundle) => assessBundle(bundle, context));
  const { bundles: ordered, next } = assessOrder(assessed, unknown.adoptions, paths, policy);
  const whole = wholeReleases(ordered, memory.contentChecks);
  const tags = assessTags(ordered, observed, memory, { ...stored, whole }, policy);
  const damaged = damagedFrom(observed, memory, ordered, supply, policy);
  const troubles = new Map([...tags.troubles, ...imageTroubles(damaged, stored, memory)]);
  const bundles = ordered.map((entry) => withTrouble(entry, troubles.get(entry.bundle.bundleId)));
  const notices = stored.bundles.filter((bundle) => !isRelease(bundle)).map((bundle) => assessNotice(bundle, context));
  const adopted = { ...stored, bundles: bundles.map(({ bundle }) => bundle) };
  const short = shortOfSpace(bundles, observed);
  const waiting = waitingOf(bundles, memory);
  const provable = provableReleases(ordered, memory.contentChecks);
  const beside = { short, waiting, pins, afterProof: tags.afterProof, whole, provable, shares };
  const life = assessLifecycle(observed, memory, adopted, beside, policy);
  return {
    bundles,
    notices,
    presentLayers,
    damaged,
    mirrors: mirrorsIn(observed),
    tags,
    pins,
    pulls: assessPulls(observed, memory, { bundles, tags }, policy),
    short,
    life,
    whole,
    provable,
    protectedReleases: protectedReleases(adopted, policy.lifecycle),
    kept: whyKept(adopted.bundles, whole, policy.lifecycle),
    rejectedNames: stored.rejectedNames ?? [],
    pauses: stored.pauses,
    windows: nextWindows(policy, observed),
    clockSynchronised: observed.clockSynchronised,
    paths,
    next,
    ...unknown,
    rejections: unknown.rejections.map((rejection) => withNeeds(rejection, context)),
  };
}

/**
 * Other nodes may need a bundle that this node rejects, such as one for another architecture. No
 * node gets a bundle that is not trusted.
 */
function withNeeds(rejection: Rejection, context: BundleContext): Rejection {
  const { bundle, mediumId, reason } = rejection;
  if (bundle === undefined || reason.code.startsWith('trust/')) return rejection;
  const carriers = context.found.filter(({ medium }) => medium.mediumId === mediumId);
  return { ...rejection, ...neededBy({ bundle, carriers }, context) };
}

function assessNotice(bundle: StoredBundle, { observed, stored, policy, found }: BundleContext): NoticeAssessment {
  const withdrawn = withdrawalOf(bundle, observed, approvalsIn(stored, policy))?.reason;
  const newSigners = newSignersOf(bundle, carriersOf(bundle, found), withdrawn === undefined);
  return { bundle, withdrawn, taken: noticeResult(bundle, stored.rotation), newSigners };
}

function damagedFrom(
  { runtime, containers }: Observed,
  { contentChecks: checks = NO_CHECKS }: Memory,
  bundles: readonly BundleAssessment[],
  supply: Supply,
  policy: Policy,
): readonly DamagedImage[] {
  if (runtime.kind !== 'reachable') return [];
  const releases = bundles.map(({ bundle, withdrawn }) => ({ bundle, isTrusted: withdrawn === undefined }));
  const { images } = runtime;
  return damagedImages({ checks, releases, images, containers, supply, online: policy.preload.online });
}

/** A damaged image matters more than lost documents. */
function imageTroubles(damaged: readonly DamagedImage[], { bundles }: Stored, { documentChecks }: Memory) {
  return new Map([...documentReasons(bundles, documentChecks), ...damageReasons(damaged)]);
}

/** Faults of tags and content count only where no other trouble is known. */
function withTrouble(entry: BundleAssessment, reason: Reason | undefined): BundleAssessment {
  if (reason === undefined) return entry;
  return { ...entry, trouble: entry.trouble ?? reason, degraded: entry.degraded ?? reason };
}

/** Releases that may be activated without a request. */
function waitingOf(bundles: readonly BundleAssessment[], { floors }: Memory): readonly StoredBundle[] {
  const inMotion = streamsInMotion(bundles);
  const isReady = new Set(bundles.filter(({ phase, reason }) => phase === 'ready' && reason === undefined));
  const waiting = new Set(neverActivated(bundles.map(({ bundle }) => bundle)));
  return [...isReady].flatMap(({ bundle }) =>
    waiting.has(bundle) && !inMotion.has(bundle.payload.name) && isAboveFloor(bundle, floors) ? [bundle] : [],
  );
}

/** Returns bundles whose preload lacks space that removed images would free. */
function shortOfSpace(bundles: readonly BundleAssessment[], { runtime }: Observed): readonly ShortOfSpace[] {
  const isStagedElsewhere = runtime.kind === 'reachable' && typeof runtime.staging === 'object';
  return bundles.flatMap(({ bundle, disk, hold, reason, share }): ShortOfSpace[] => {
    if (hold !== 'space' && reason?.code !== 'engine/no-space') return [];
    if (share !== undefined) {
      const bytes = share.used + share.needed - share.max;
      return [{ bundle, lacking: { bytes, inodes: 0 }, isOverShare: true }];
    }
    const shortages = disk?.shortages ?? [];
    if (shortages.some(({ kind }) => kind === 'staging')) return [];
    if (shortages.length === 0) return isStagedElsewhere ? [] : [{ bundle, lacking: { bytes: 1, inodes: 0 } }];
    const of = (wanted: ShortOf['kind']) => shortages.find(({ kind }) => kind === wanted)?.lacking ?? 0;
    return [{ bundle, lacking: { bytes: of('bytes'), inodes: of('inodes') } }];
  });
}

function mirrorsIn({ runtime }: Observed): RenderedMirrors {
  if (runtime.kind !== 'reachable') return { repositories: [], takeEffect: 'at-once' };
  return { repositories: runtime.renderedMirrors, takeEffect: runtime.mirrorsTakeEffect ?? 'at-once' };
}

function imagesByName(observed: Observed): ReadonlyMap<string, RuntimeImage> | undefined {
  if (observed.runtime.kind !== 'reachable') return undefined;
  return new Map(
    usableImages(observed.runtime.images).flatMap((image) =>
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

export function allBundles({ bundles, notices }: Assessment): readonly StoredBundle[] {
  return [...bundles, ...notices].map(({ bundle }) => bundle);
}

function trustNow(observed: Observed, stored: Stored, policy: Policy): (bundle: StoredBundle) => boolean {
  const approvals = approvalsIn(stored, policy);
  return (bundle) => withdrawalOf(bundle, observed, approvals) === undefined;
}

/** A barrier counts even while its release is rejected: a rejection must not let a node pass it. */
function assessPaths(observed: Observed, stored: Stored, adoptions: readonly Adoption[], policy: Policy): StreamPaths {
  const { runtime, containers, now } = observed;
  const { bundles } = stored;
  const arriving = adoptions.map(({ found }) => found.bundle);
  const approvals = approvalsIn(stored, policy);
  const isTrusted = trustNow(observed, stored, policy);
  const trusted = bundles.filter(isTrusted);
  const withdrawn = bundles.filter((bundle) => !isTrusted(bundle));
  const rejected = withdrawn.filter((bundle) => isRelease(bundle) && awaitsPerson(bundle, observed, approvals));
  const pastSpeakers = (stored.speakers ?? []).flatMap((speaker) => spokenBy(speaker, observed, approvals));
  const seen = runtime.kind === 'reachable' && containers ? { images: runtime.images, containers } : undefined;
  return readPaths({
    releases: bundles.filter(isRelease),
    arriving: arriving.filter(isRelease),
    speakers: [...pastSpeakers, ...trusted.map(asSpeaker), ...rejected.map(onlyOfItself), ...arriving],
    withdrawn: new Set(withdrawn.map(({ bundleId }) => bundleId)),
    running: seen && runningReleases(bundles, seen),
    policy,
    now,
  });
}

/** Judges a forgotten release like a known one. Its approval is kept with it. */
function spokenBy(speaker: PastSpeaker, observed: Observed, approvals: Approvals): readonly PastSpeaker[] {
  const approved = { bundleId: speaker.bundleId, verdict: 'approved', at: 0 } as const;
  const withApproval = speaker.isApproved ? { ...approvals, verdicts: [...approvals.verdicts, approved] } : approvals;
  if (withdrawalOf(speaker, observed, withApproval) === undefined) return [speaker];
  return awaitsPerson(speaker, observed, approvals) ? [onlyOfItself(speaker)] : [];
}

function onlyOfItself<T extends Pick<PastSpeaker, 'payload'>>(bundle: T): T {
  const { advisories: _, ...payload } = bundle.payload;
  return { ...bundle, payload };
}

function asSpeaker(bundle: StoredBundle): StoredBundle {
  const { update: _, ...payload } = bundle.payload;
  return isRelease(bundle) ? bundle : { ...bundle, payload };
}
