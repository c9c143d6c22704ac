import type { BundleId } from '../model/digest.ts';
import type { RuntimeContainer } from '../model/runtime-container.ts';
import type { RuntimeImage, RuntimeObservation } from '../model/runtime-image.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { Soak } from '../state/soak-record.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import type { LifeVerdict } from './life-verdict.ts';
import type { ContainerLook } from './proof/container-look.ts';
import { distinguishingIds, imageIdOf, imageIds, witnessesOf } from './proof/evidence.ts';
import { isLookDue, provenWayBack, provenWithFallback, unprovenWayBack } from './proof/rollback-evidence.ts';
import { neverActivated, seenRunning } from './proof/seen-running.ts';
import { judgeSoak, type SoakVerdict, soakAfter } from './proof/soak.ts';
import { unseenAfter } from './proof/without-evidence.ts';
import { currentIds, isProven, isRetired, isRolledBack, isTwin, keptBundles, wasActive } from './recorded-phase.ts';
import { isProtected, type Room, removableIds, roomFor, surplusBundles, withoutUsed } from './retention.ts';

/**
 * How often to check whether removed pins are gone. A reload takes some time, and nothing signals
 * its end.
 */
const UNPIN_POLL_MS = 1_000;
/** How long to check. An image that is still pinned then is pinned by another program. */
const UNPIN_PATIENCE_MS = 30_000;

/** What one round concludes about what comes after activation. */
export interface LifeAssessment {
  /** In the order in which they are to be followed. */
  readonly verdicts: readonly LifeVerdict[];
  /** When the soak of a component ends, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
  /**
   * How the soak of each release that is not proven yet stands, as far as containers were looked
   * at.
   */
  readonly soaks: ReadonlyMap<BundleId, SoakVerdict>;
  /** Digests of images that the runtime has and that did not come with us. */
  readonly foreign: ReadonlySet<string>;
}

/** A bundle that can't be preloaded for lack of space. */
export interface ShortOfSpace {
  readonly bundle: StoredBundle;
  /** At least that much is to be freed. */
  readonly lacking: Room;
}

/** The part of the assessment of bundles on which the phases of releases depend. */
export interface LifeInput {
  /** Bundles that need more space. */
  readonly short: readonly ShortOfSpace[];
  /** Releases that are ready, were never activated, and may be. */
  readonly waiting: readonly StoredBundle[];
  /** References that are pinned and belong to no known release: their images are not removed. */
  readonly unclaimed: readonly string[];
}

/** What of the rounds before says whether containers are to be looked at. */
export interface BeforeLook {
  /** Whether a bundle lacked space. */
  readonly isShort: boolean;
  /** How long ago containers were looked at, by the machine's own time. */
  readonly sinceLookMs: number;
}

/**
 * Whether anything hangs on containers: a release that must prove itself or may run by itself, one
 * that is to be retired, images that are to be removed. While all is proven they are looked at now
 * and then, since an older release may run again.
 */
export function needsContainers(
  stored: Stored,
  runtime: RuntimeObservation,
  policy: Policy,
  { isShort, sinceLookMs }: BeforeLook,
): boolean {
  if (runtime.kind !== 'reachable') return false;
  if (isLookDue(stored.bundles, sinceLookMs, policy.lifecycle)) return true;
  if (isShort || unprovenReleases(stored).length + neverActivated(stored.bundles).length > 0) return true;
  if (surplusBundles(stored.bundles, policy.lifecycle).length > 0) return true;
  const context = { images: runtime.images, ids: imageIds(runtime.images), stored };
  return stored.bundles.some((bundle) => removableIds(bundle, context).length > 0);
}

/** What the runtime has, seen in one moment. */
export interface ContainersSeen {
  readonly images: readonly RuntimeImage[];
  readonly containers: readonly RuntimeContainer[];
}

/** Kept releases whose distinguishing images have containers that are not over. */
export function runningReleases(
  bundles: readonly StoredBundle[],
  { images, containers }: ContainersSeen,
): ReadonlySet<BundleId> {
  const seen = { bundles, containers, ids: imageIds(images) };
  return new Set(keptBundles(bundles).flatMap((bundle) => (isAnyRunning(bundle, seen) ? [bundle.bundleId] : [])));
}

/** Concludes about evidence, soak, retirement and removal. */
export function assessLife(
  observed: Observed,
  memory: Memory,
  stored: Stored,
  { short, waiting, unclaimed }: LifeInput,
  policy: Policy,
): LifeAssessment {
  const { runtime, containers } = observed;
  const foreign = foreignDigests(runtime, stored);
  const unpinAt = isUnpinning(observed, stored) ? [observed.now + UNPIN_POLL_MS] : [];
  const nothing = { verdicts: [], wakeAt: unpinAt[0], soaks: new Map(), foreign };
  if (runtime.kind !== 'reachable') return nothing;
  const twins = takeOvers(stored, policy);
  if (twins.length > 0) return { ...nothing, verdicts: twins };
  if (containers === undefined) return nothing;
  const look: ContainerLook = {
    observed,
    memory,
    stored,
    policy,
    containers,
    ids: imageIds(runtime.images),
    unclaimed,
  };
  const unproven = unprovenReleases(stored).map((bundle) => follow(bundle, look));
  const proven = provenWithFallback(stored.bundles).flatMap((bundle) => followProven(bundle, look));
  const followed = [...unproven, ...proven];
  // One of two that run in parts is activated at a time, else the tags would be those of whichever
  // comes last.
  const goingBack = new Set(followed.flatMap(({ bundle, isBack }) => (isBack ? [bundle.payload.name] : [])));
  const unasked = seenRunning(
    waiting.filter(({ payload }) => !goingBack.has(payload.name)),
    look,
  );
  const due = [
    ...unpinAt,
    ...unasked.dueInMs.map((ms) => observed.now + ms),
    ...followed.flatMap(({ dueInMs }) => (dueInMs === undefined ? [] : [observed.now + Math.max(1, dueInMs)])),
  ];
  return {
    verdicts: [
      ...followed.flatMap((entry) => entry.verdicts),
      ...unasked.verdicts,
      ...retirements(look, short),
      ...removals(look),
    ],
    wakeAt: due.length === 0 ? undefined : Math.min(...due),
    foreign,
    soaks: new Map(unproven.map(({ bundle, verdict }) => [bundle.bundleId, verdict])),
  };
}

/**
 * Whether a release was retired just now whose images are to be removed, and the runtime still
 * reports some of them as pinned.
 */
function isUnpinning({ runtime, now }: Observed, { bundles }: Stored): boolean {
  if (runtime.kind !== 'reachable') return false;
  const needed = new Set(
    keptBundles(bundles).flatMap(({ contents }) => contents.images.map((image) => image.reference)),
  );
  const fresh = bundles.filter(
    (bundle) =>
      isRetired(bundle) && bundle.removeImages === true && Math.abs(now - (bundle.retiredAt ?? 0)) < UNPIN_PATIENCE_MS,
  );
  const leaving = new Set(
    fresh
      .flatMap(({ contents }) => contents.images.map((image) => image.reference))
      .filter((name) => !needed.has(name)),
  );
  return (
    leaving.size > 0 &&
    runtime.images.some((image) => image.pinned && image.repoDigests.some((name) => leaving.has(name)))
  );
}

/** An image that goes by one name that we brought came with us, whatever its other names. */
function foreignDigests(runtime: RuntimeObservation, { pulledByUs = new Set() }: Stored): ReadonlySet<string> {
  const images = runtime.kind === 'reachable' ? runtime.images : [];
  const foreign = images.filter(({ repoDigests }) => !repoDigests.some((name) => pulledByUs.has(name)));
  return new Set(foreign.flatMap(({ repoDigests }) => repoDigests.map((name) => name.slice(name.indexOf('@') + 1))));
}

/** Of each stream the release that was activated last, unless it is proven or went back. */
function unprovenReleases({ bundles }: Stored): readonly StoredBundle[] {
  const current = currentIds(bundles);
  return bundles.filter((bundle) => current.has(bundle.bundleId) && !isProven(bundle) && !isRolledBack(bundle));
}

/**
 * Same images, new metadata: nothing could tell it from the other one, so it goes on where that one
 * is.
 */
function takeOvers(stored: Stored, policy: Policy): LifeVerdict[] {
  return unprovenReleases(stored)
    .filter((bundle) => !wasActive(bundle))
    .flatMap((bundle): LifeVerdict[] => {
      const twin = keptBundles(stored.bundles).find(
        (other) =>
          other.payload.name === bundle.payload.name &&
          isTwin(bundle, other) &&
          !isRolledBack(other) &&
          (other.provenAt !== undefined || wasActive(other)),
      );
      return twin === undefined
        ? []
        : [
            {
              kind: 'same-images',
              bundleId: bundle.bundleId,
              twin: twin.bundleId,
              isTwinProtected: isProtected(twin, policy.lifecycle),
            },
          ];
    });
}

interface Followed {
  readonly bundle: StoredBundle;
  /** Whether an older release runs in its place. */
  readonly isBack: boolean;
  readonly verdicts: readonly LifeVerdict[];
  readonly dueInMs: number | undefined;
}

function follow(bundle: StoredBundle, look: ContainerLook): Followed & { readonly verdict: SoakVerdict } {
  const { observed, stored, policy } = look;
  const { bundleId, activatedAt = 0 } = bundle;
  const witnesses = witnessesOf(bundle, stored.bundles, look, policy.lifecycle);
  const clock = soakAfter(bundle.soak, witnesses, observed.boot, activatedAt);
  const { uptimeMs } = observed.boot;
  const isOtherRunning = isOtherOfStreamRunning(bundle, look);
  const unseen = unseenAfter(clock, bundle.soak, { uptimeMs, isOtherRunning }, policy.lifecycle);
  const back = unprovenWayBack(bundle, unseen.soak, look);
  const verdict = judgeSoak(back.soak, observed.boot, policy.lifecycle);
  const verdicts = clockVerdict(bundle, back.soak);
  if (unseen.isDone) {
    verdicts.push({ kind: 'unseen-for-long', bundleId, soak: { ...back.soak, proof: 'without-evidence' } });
  }
  if (verdict.kind !== 'none' && !wasActive(bundle)) verdicts.push({ kind: 'runs', bundleId });
  if (verdict.kind === 'done') verdicts.push({ kind: 'soaked', bundleId });
  const soaksMs = verdict.kind === 'soaking' ? verdict.remainingMs : undefined;
  const isBack = back.soak.backSinceMs !== undefined;
  return {
    bundle,
    verdict,
    isBack,
    verdicts: [...verdicts, ...back.verdicts],
    dueInMs: isBack ? back.dueInMs : (soaksMs ?? unseen.dueInMs),
  };
}

/** A proven release keeps the clock that proved it; it may go back all the same. */
function followProven(bundle: StoredBundle, look: ContainerLook): readonly Followed[] {
  const back = provenWayBack(bundle, isRunning(bundle, look), look);
  if (back === undefined) return [];
  const { soak, verdicts, dueInMs } = back;
  return [
    { bundle, isBack: soak.backSinceMs !== undefined, verdicts: [...clockVerdict(bundle, soak), ...verdicts], dueInMs },
  ];
}

function clockVerdict({ bundleId, soak: before }: StoredBundle, soak: Soak): LifeVerdict[] {
  return JSON.stringify(soak) === JSON.stringify(before) ? [] : [{ kind: 'clock-changed', bundleId, soak }];
}

function retirements(look: ContainerLook, short: readonly ShortOfSpace[]): LifeVerdict[] {
  const { memory, stored, policy } = look;
  const isFree = (bundle: StoredBundle) =>
    !isRunning(bundle, look) &&
    !memory.running.some((task) => task.kind === 'activate' && task.bundleId === bundle.bundleId);
  const surplus = surplusBundles(stored.bundles, policy.lifecycle)
    .filter(isFree)
    .map((bundle): LifeVerdict => ({ kind: 'spare', bundleId: bundle.bundleId }));
  // One at a time: what the last one freed has to be seen first.
  const isFreeing = stored.bundles.some((bundle) => isRetired(bundle) && withRemovals(bundle, look).length > 0);
  if (surplus.length > 0 || isFreeing) return surplus;
  for (const { bundle, lacking } of short) {
    const given = roomFor(bundle, lacking, stored, policy.lifecycle);
    if (given !== undefined && isFree(given)) {
      return [{ kind: 'spare', bundleId: given.bundleId, roomFor: bundle.bundleId }];
    }
  }
  return [];
}

function isRunning(bundle: StoredBundle, { stored: { bundles }, containers, ids }: ContainerLook): boolean {
  return isAnyRunning(bundle, { bundles, containers, ids });
}

/** An older release that runs tells that this one does not yet. */
function isOtherOfStreamRunning({ bundleId, payload }: StoredBundle, look: ContainerLook): boolean {
  return keptBundles(look.stored.bundles).some(
    (other) =>
      other.bundleId !== bundleId &&
      other.payload.name === payload.name &&
      other.activatedAt !== undefined &&
      isRunning(other, look),
  );
}

function isAnyRunning(
  bundle: StoredBundle,
  { bundles, containers, ids }: Pick<ContainerLook, 'containers' | 'ids'> & Pick<Stored, 'bundles'>,
): boolean {
  const own = distinguishingIds(bundle, bundles, ids);
  return containers.some((container) => container.state !== 'exited' && own.has(imageIdOf(container, ids) ?? ''));
}

function withRemovals(
  bundle: StoredBundle,
  { observed: { runtime }, stored, containers, ids, unclaimed }: ContainerLook,
) {
  if (runtime.kind !== 'reachable') return [];
  return withoutUsed(removableIds(bundle, { images: runtime.images, ids, stored, unclaimed }), containers, ids);
}

function removals(look: ContainerLook): LifeVerdict[] {
  const taken = new Set<string>();
  return look.stored.bundles.flatMap((bundle): LifeVerdict[] => {
    const images = withRemovals(bundle, look).filter(({ imageId }) => !taken.has(imageId));
    for (const { imageId } of images) taken.add(imageId);
    return images.length === 0 ? [] : [{ kind: 'removable', bundleId: bundle.bundleId, images }];
  });
}
