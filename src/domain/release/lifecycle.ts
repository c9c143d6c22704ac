import type { BundleId } from '../model/digest.ts';
import type { RuntimeObservation } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { Soak } from '../state/release-record.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import type { LifecycleFinding } from './lifecycle-finding.ts';
import type { ContainerLook } from './proof/container-look.ts';
import { imageIds, witnessesOf } from './proof/evidence.ts';
import { seenRunning } from './proof/seen-running.ts';
import { takeOvers } from './proof/take-overs.ts';
import { unseenAfter } from './proof/without-evidence.ts';
import { unprovenReleases, wasActive } from './recorded-phase.ts';
import { incompleteReleases } from './retention.ts';
import { isUnpinning, removals, retirements, type ShortOfSpace, UNPIN_POLL_MS } from './retirement.ts';
import { provenWithFallback, rollbackOfProven, rollbackOfUnproven } from './rollback.ts';
import { isOtherOfStreamRunning, isRunning } from './running-releases.ts';
import { judgeSoak, type SoakVerdict, soakAfter } from './soak.ts';

export interface LifecycleAssessment {
  /** In the order in which they are to be followed. */
  readonly findings: readonly LifecycleFinding[];
  /** The end of a component's soak, in milliseconds since the epoch. */
  readonly wakeAt: number | undefined;
  /** Of each release that is not proven yet, as far as containers were listed. */
  readonly soaks: ReadonlyMap<BundleId, SoakVerdict>;
  /** Releases that are not proven while an older one of their stream runs, as far as seen. */
  readonly outrun: ReadonlySet<BundleId>;
  /** Digests of images that did not come with us. */
  readonly foreign: ReadonlySet<string>;
}

interface LifecycleInput {
  readonly short: readonly ShortOfSpace[];
  /** Releases that are ready, were never activated, and may be. */
  readonly waiting: readonly StoredBundle[];
  /** References that are pinned and belong to no known release: their images are not removed. */
  readonly unclaimed: readonly string[];
}

export function assessLifecycle(
  observed: Observed,
  memory: Memory,
  stored: Stored,
  { short, waiting, unclaimed }: LifecycleInput,
  policy: Policy,
): LifecycleAssessment {
  const { runtime, containers } = observed;
  const foreign = foreignDigests(runtime, stored);
  const unpinAt = isUnpinning(observed, stored) ? [observed.now + UNPIN_POLL_MS] : [];
  const nothing = { findings: [], wakeAt: unpinAt[0], soaks: new Map(), outrun: new Set<BundleId>(), foreign };
  if (runtime.kind !== 'reachable') return nothing;
  const twins = takeOvers(stored, policy);
  if (twins.length > 0) return { ...nothing, findings: twins };
  const incomplete = incompleteReleases({ observed, memory, bundles: stored.bundles, policy }).map(
    (bundleId): LifecycleFinding => ({ kind: 'incomplete', bundleId }),
  );
  if (containers === undefined) return { ...nothing, findings: incomplete };
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
    findings: [
      ...followed.flatMap((entry) => entry.findings),
      ...unasked.findings,
      ...retirements(look, short),
      ...incomplete,
      ...removals(look),
    ],
    wakeAt: due.length === 0 ? undefined : Math.min(...due),
    foreign,
    soaks: new Map(unproven.map(({ bundle, verdict }) => [bundle.bundleId, verdict])),
    outrun: new Set(unproven.flatMap(({ bundle, isOtherRunning }) => (isOtherRunning ? [bundle.bundleId] : []))),
  };
}

/** An image is ours if we pulled one of its names. */
function foreignDigests(runtime: RuntimeObservation, { pulledByUs = new Set() }: Stored): ReadonlySet<string> {
  const images = runtime.kind === 'reachable' ? runtime.images : [];
  const foreign = images.filter(({ repoDigests }) => !repoDigests.some((name) => pulledByUs.has(name)));
  return new Set(foreign.flatMap(({ repoDigests }) => repoDigests.map((name) => name.slice(name.indexOf('@') + 1))));
}

interface Followed {
  readonly bundle: StoredBundle;
  /** Whether an older release runs in its place. */
  readonly isBack: boolean;
  readonly findings: readonly LifecycleFinding[];
  readonly dueInMs: number | undefined;
}

interface FollowedUnproven extends Followed {
  readonly verdict: SoakVerdict;
  readonly isOtherRunning: boolean;
}

function follow(bundle: StoredBundle, look: ContainerLook): FollowedUnproven {
  const { observed, stored, policy } = look;
  const { bundleId, activatedAt = 0 } = bundle;
  const witnesses = witnessesOf(bundle, stored.bundles, look, policy.lifecycle);
  const clock = soakAfter(bundle.soak, witnesses, observed.boot, activatedAt);
  const { uptimeMs } = observed.boot;
  const isOtherRunning = isOtherOfStreamRunning(bundle, look);
  const unseen = unseenAfter(clock, bundle.soak, { uptimeMs, isOtherRunning }, policy.lifecycle);
  const back = rollbackOfUnproven(bundle, unseen.soak, look);
  const verdict = judgeSoak(back.soak, observed.boot, policy.lifecycle);
  const findings = clockFinding(bundle, back.soak);
  if (unseen.isDone) {
    findings.push({ kind: 'unseen-for-long', bundleId, soak: { ...back.soak, proof: 'without-evidence' } });
  }
  if (verdict.kind !== 'none' && !wasActive(bundle)) findings.push({ kind: 'runs', bundleId });
  if (verdict.kind === 'done') findings.push({ kind: 'soaked', bundleId });
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

/** A proven release keeps the clock that proved it; it may go back all the same. */
function followProven(bundle: StoredBundle, look: ContainerLook): readonly Followed[] {
  const back = rollbackOfProven(bundle, isRunning(bundle, look), look);
  if (back === undefined) return [];
  const { soak, findings, dueInMs } = back;
  return [
    { bundle, isBack: soak.backSinceMs !== undefined, findings: [...clockFinding(bundle, soak), ...findings], dueInMs },
  ];
}

function clockFinding({ bundleId, soak: before }: StoredBundle, soak: Soak): LifecycleFinding[] {
  return JSON.stringify(soak) === JSON.stringify(before) ? [] : [{ kind: 'clock-changed', bundleId, soak }];
}

/**
 * What let a release be activated without a request: a window of the node, the turn of the node in
 * its rollout, or else its schedule alone.
 */
export function automaticCause(
  { payload }: Pick<StoredBundle, 'payload'>,
  { update }: Pick<Policy, 'update'>,
): 'window' | 'rollout' | 'schedule' {
  if (update.strategy === 'window') return 'window';
  return payload.update?.rollout === undefined ? 'schedule' : 'rollout';
}
