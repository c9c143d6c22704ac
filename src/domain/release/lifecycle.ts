import { defined } from '../../platform/defined.ts';
import type { BundleId } from '../model/digest.ts';
import type { RuntimeObservation } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { LifecycleFinding } from '../state/effect.ts';
import type { Memory } from '../state/memory.ts';
import type { Soak } from '../state/release-record.ts';
import { isOrdered, type Observed, ofStream, type Stored, type StoredBundle } from '../state/state.ts';
import {
  type ContainerView,
  imageIds,
  judgeSoak,
  type SoakVerdict,
  soakAfter,
  soakAfterProof,
  witnessesOf,
} from './evidence.ts';
import { forgettable } from './forgetting.ts';
import { hasSameArtifacts, isRolledBack, isTwin, keptBundles, unprovenReleases, wasActive } from './recorded-phase.ts';
import { replacements } from './replacements.ts';
import { incompleteReleases, isProtected } from './retention.ts';
import { isUnpinning, removals, retirements, UNPIN_POLL_MS } from './retirement.ts';
import { provenWithFallback, rollbackOfProven, rollbackOfUnproven } from './rollback.ts';
import type { ShortOfSpace } from './room.ts';
import { isOtherOfStreamRunning, isRunning, seenRunning } from './running-releases.ts';
import type { Shares } from './shares.ts';
import type { ProofGoal } from './tag-goals.ts';
import type { PinAssessment } from './unclaimed-pins.ts';
import type { Whole } from './whole.ts';

export interface LifecycleAssessment {
  /** The findings, in the order of execution. */
  readonly findings: readonly LifecycleFinding[];
  /** The end of a component's soak, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
  /** Verdicts of all releases that are not proven yet, as far as containers were listed. */
  readonly soaks: ReadonlyMap<BundleId, SoakVerdict>;
  readonly outrun: ReadonlySet<BundleId>;
  /** Digests of images that stickpin did not pull. */
  readonly foreign: ReadonlySet<string>;
}

interface Beside {
  readonly short: readonly ShortOfSpace[];
  readonly waiting: readonly StoredBundle[];
  readonly pins: PinAssessment;
  readonly afterProof: readonly ProofGoal[];
  readonly whole: Whole;
  readonly provable: Whole;
  readonly shares: Shares;
}

export function assessLifecycle(
  observed: Observed,
  memory: Memory,
  stored: Stored,
  { short, waiting, pins, afterProof, whole, provable, shares }: Beside,
  policy: Policy,
): LifecycleAssessment {
  const { runtime, containers } = observed;
  const { unclaimed } = pins;
  const foreign = foreignDigests(runtime, stored);
  const unpinAt = isUnpinning(observed, stored) ? [observed.now + UNPIN_POLL_MS] : [];
  const nothing = { findings: [], wakeAt: unpinAt[0], soaks: new Map(), outrun: new Set<BundleId>(), foreign };
  if (runtime.kind !== 'reachable') return nothing;
  const twins = takeOvers(stored, whole, policy);
  if (twins.length > 0) return { ...nothing, findings: twins };
  const incomplete = incompleteReleases({ observed, memory, bundles: stored.bundles, policy }).map(
    (bundleId): LifecycleFinding => ({ kind: 'incomplete', bundleId }),
  );
  const past = forgettable({ observed, memory, stored, pins, policy, whole });
  const over = past === undefined ? [] : [{ kind: 'over', bundleId: past } as const];
  if (containers === undefined) return { ...nothing, findings: [...incomplete, ...over] };
  const ids = imageIds(runtime.images);
  const view: ContainerView = { observed, memory, stored, policy, containers, ids, unclaimed, whole, provable };
  const unproven = unprovenReleases(stored).map((bundle) => follow(bundle, view));
  const proven = provenWithFallback(stored.bundles).flatMap((bundle) => followProven(bundle, view));
  const followed = [...unproven, ...proven];
  // Only one of two partly running releases is activated at a time: their tags may be the same.
  const goingBack = new Set(followed.flatMap(({ bundle, isBack }) => (isBack ? [bundle.payload.name] : [])));
  const unrequested = seenRunning(
    waiting.filter(({ payload }) => !goingBack.has(payload.name)),
    view,
  );
  const due = [
    ...unpinAt,
    ...unrequested.dueInMs.map((ms) => observed.now + ms),
    ...followed.flatMap(({ dueInMs }) => (dueInMs === undefined ? [] : [observed.now + Math.max(1, dueInMs)])),
  ];
  return {
    findings: [
      ...followed.flatMap((entry) => entry.findings),
      ...unrequested.findings,
      ...retirements(view, short, shares),
      ...incomplete,
      ...removals(view),
      ...replacements(view, afterProof),
      ...over,
    ],
    wakeAt: due.length === 0 ? undefined : Math.min(...due),
    foreign,
    soaks: new Map(unproven.map(({ bundle, verdict }) => [bundle.bundleId, verdict])),
    outrun: new Set(unproven.flatMap(({ bundle, isOtherRunning }) => (isOtherRunning ? [bundle.bundleId] : []))),
  };
}

/** An image is stickpin's if stickpin pulled one of its names. */
function foreignDigests(runtime: RuntimeObservation, { pulledByUs = new Set() }: Stored): ReadonlySet<string> {
  const images = runtime.kind === 'reachable' ? runtime.images : [];
  const foreign = images.filter(({ repoDigests }) => !repoDigests.some((name) => pulledByUs.has(name)));
  return new Set(foreign.flatMap(({ repoDigests }) => repoDigests.map((name) => name.slice(name.indexOf('@') + 1))));
}

interface Followed {
  readonly bundle: StoredBundle;
  readonly isBack: boolean;
  readonly findings: readonly LifecycleFinding[];
  readonly dueInMs: number | undefined;
}

interface FollowedUnproven extends Followed {
  readonly verdict: SoakVerdict;
  readonly isOtherRunning: boolean;
}

/** INVARIANT: a release that is not whole is not proven, however long its containers run. */
function follow(bundle: StoredBundle, view: ContainerView): FollowedUnproven {
  const { observed, stored, policy, provable } = view;
  const { bundleId, activatedAt = 0 } = bundle;
  const witnesses = witnessesOf(bundle, stored.bundles, view, policy.lifecycle);
  const clock = soakAfter(bundle.soak, witnesses, observed.boot, activatedAt);
  const { uptimeMs } = observed.boot;
  const isOtherRunning = isOtherOfStreamRunning(bundle, view);
  const unseen = unseenAfter(clock, bundle.soak, { uptimeMs, isOtherRunning }, policy.lifecycle);
  const back = rollbackOfUnproven(bundle, unseen.soak, view);
  const verdict = judgeSoak(back.soak, observed.boot, policy.lifecycle);
  const findings = clockFinding(bundle, back.soak);
  const isWhole = provable.has(bundleId);
  if (unseen.isDone && isWhole) {
    findings.push({ kind: 'unseen-for-long', bundleId, soak: { ...back.soak, proof: 'without-evidence' } });
  }
  if (verdict.kind !== 'none' && !wasActive(bundle)) findings.push({ kind: 'runs', bundleId });
  if (verdict.kind === 'done' && isWhole) findings.push({ kind: 'soaked', bundleId });
  const soaksMs = verdict.kind === 'soaking' ? verdict.remainingMs : undefined;
  const isBack = back.soak.backSinceMs !== undefined;
  return {
    bundle,
    verdict,
    isOtherRunning,
    isBack,
    findings: [...findings, ...back.findings],
    dueInMs: isBack ? back.dueInMs : (soaksMs ?? unseen.dueInMs),
  };
}

/**
 * A proven release keeps the clock that proved it, and may still go back. The later state of its
 * containers is recorded only for other nodes.
 */
function followProven(proven: StoredBundle, view: ContainerView): readonly Followed[] {
  const { observed, stored, policy } = view;
  if (proven.soak === undefined) return [];
  const witnesses = witnessesOf(proven, stored.bundles, view, policy.lifecycle);
  const clock = isOrdered(proven, policy)
    ? soakAfterProof(proven.soak, witnesses, observed.boot)
    : defined({ ...proven.soak, afterProof: undefined });
  const bundle = { ...proven, soak: clock };
  const back = rollbackOfProven(bundle, isRunning(bundle, view), view);
  if (back === undefined) return [];
  const { soak, findings, dueInMs } = back;
  return [
    { bundle, isBack: soak.backSinceMs !== undefined, findings: [...clockFinding(proven, soak), ...findings], dueInMs },
  ];
}

function clockFinding({ bundleId, soak: before }: StoredBundle, soak: Soak): LifecycleFinding[] {
  return JSON.stringify(soak) === JSON.stringify(before) ? [] : [{ kind: 'clock-changed', bundleId, soak }];
}

/** Returns why a release was activated without a request: a window, rollout, or schedule. */
export function automaticCause({ payload }: StoredBundle, { update }: Policy): 'window' | 'rollout' | 'schedule' {
  if (update.strategy === 'window') return 'window';
  return payload.update?.rollout === undefined ? 'schedule' : 'rollout';
}

/**
 * No container distinguishes two releases with the same images, so the new one gets the other's
 * state. A release with other artifacts stays as the fallback.
 */
function takeOvers(stored: Stored, whole: Whole, policy: Policy): LifecycleFinding[] {
  return unprovenReleases(stored)
    .filter((bundle) => !wasActive(bundle) && whole.has(bundle.bundleId))
    .flatMap((bundle): LifecycleFinding[] => {
      const twin = keptBundles(ofStream(stored.bundles, bundle.payload.name)).find(
        (other) => isTwin(bundle, other) && !isRolledBack(other) && (other.provenAt !== undefined || wasActive(other)),
      );
      if (twin === undefined) return [];
      const isTwinKept = isProtected(twin, policy.lifecycle) || !hasSameArtifacts(bundle, twin);
      return [{ kind: 'same-images', bundleId: bundle.bundleId, twin: twin.bundleId, isTwinKept }];
    });
}

/** A longer gap between two checks of the containers does not count as observed. */
const LONGEST_GAP_MS = 180_000;
/** Each record is a write to the disk. */
const STEP_MS = 60_000;

/**
 * Counts how long a release has been activated without evidence (`lifecycle.without_evidence`;
 * docs/decisions/proof.md, "Without evidence"). Only time between two observations of the
 * containers counts. It starts again while another release of the stream runs.
 *
 * @param soak the clock after this observation
 * @param before the recorded clock
 * @returns `dueInMs`: milliseconds from now until it is proven or recorded next
 */
function unseenAfter(
  soak: Soak,
  before: Soak | undefined,
  { uptimeMs, isOtherRunning }: { readonly uptimeMs: number; readonly isOtherRunning: boolean },
  { without_evidence: neededMs, require }: Policy['lifecycle'],
): { readonly soak: Soak; readonly isDone: boolean; readonly dueInMs: number | undefined } {
  if (neededMs === 'keep' || soak.components.length > 0 || require.length > 0 || isOtherRunning) {
    return { soak, isDone: false, dueInMs: undefined };
  }
  const known = before?.activatedAt === soak.activatedAt ? before.unseen : undefined;
  const { totalMs, atMs } = known ?? { totalMs: 0, atMs: uptimeMs };
  const sinceMs = uptimeMs - atMs;
  const isGap = before?.bootId !== soak.bootId || sinceMs < 0 || sinceMs > LONGEST_GAP_MS;
  const now = { totalMs: totalMs + (isGap ? 0 : sinceMs), atMs: uptimeMs };
  const leftMs = Math.max(0, neededMs - now.totalMs);
  const stepMs = Math.min(STEP_MS, neededMs);
  const isDone = leftMs === 0;
  const unseen = known !== undefined && !isGap && !isDone && sinceMs < stepMs ? known : now;
  return { soak: { ...soak, unseen }, isDone, dueInMs: isDone ? undefined : Math.max(1, Math.min(leftMs, stepMs)) };
}
