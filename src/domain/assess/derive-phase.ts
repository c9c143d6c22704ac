import { defined } from '../../platform/defined.ts';
import type { Withdrawal } from '../adoption/adoption.ts';
import { artifactLayers } from '../model/bundle.ts';
import type { PhaseOf } from '../model/condition.ts';
import { awayCode, type RuntimeObservation } from '../model/image.ts';
import type { Fault, RuntimeReason } from '../model/reason.ts';
import { RUNTIME_NAMES, RUNTIMES } from '../model/runtimes.ts';
import {
  type BundleFacts,
  baseHold,
  cancelHold,
  imagesMissing,
  mediaHold,
  pinReason,
  runtimeHold,
  syncReason,
  uncheckedReason,
} from '../preload/hold.ts';
import { spaceHold } from '../preload/space.ts';
import { lackingCount } from '../preload/supply.ts';
import { type ReachedPhase, reachedPhase } from '../release/recorded-phase.ts';
import { rollbackReason } from '../release/rollback.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';

type PhaseContext = { readonly observed: Observed; readonly memory: Memory; readonly stored: Stored };

/** docs/architecture.md, "Life of a bundle". */
export function derivePhase(facts: BundleFacts, withdrawal: Withdrawal | undefined, context: PhaseContext): PhaseOf {
  const phase = phaseOf(facts, context);
  if (withdrawal === undefined || phase.phase === 'retired') return phase;
  return facts.bundle.readyAt === undefined ? withdrawal : { ...phase, reason: withdrawal.reason };
}

function phaseOf(facts: BundleFacts, { observed, memory, stored }: PhaseContext): PhaseOf {
  const { bundle, unpinnedImages } = facts;
  const reached = reachedPhase(bundle, stored.bundles);
  if (reached === 'retired') return { phase: 'retired' };
  if (observed.runtime.kind !== 'reachable') {
    const reason: Fault = { code: awayCode(observed.runtime), message: observed.runtime.reason };
    return reached === undefined ? { phase: 'held', hold: 'runtime', reason } : { phase: reached, reason };
  }
  const tooOld = unsupportedReason(observed.runtime);
  if (tooOld !== undefined) {
    return reached === undefined
      ? { phase: 'held', hold: 'runtime-version', reason: tooOld }
      : { phase: reached, reason: tooOld };
  }
  if (lackingCount(facts) > 0) return incomplete(facts, reached, observed, memory);
  if (unpinnedImages.length > 0) return unpinned(facts, reached, observed, memory);
  if (facts.unsyncedImages.length > 0) return unsynced(facts, reached, memory);
  const unchecked = reached === undefined ? uncheckedReason(facts, memory) : undefined;
  if (unchecked !== undefined) return { phase: 'preloading', reason: unchecked };
  return settled(bundle, stored.bundles, reached);
}

function incomplete(facts: BundleFacts, reached: ReachedPhase | undefined, { now }: Observed, memory: Memory): PhaseOf {
  const { bundleId } = facts.bundle;
  const isPulling = memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId);
  const waiting = isPulling
    ? undefined
    : (baseHold(facts) ?? spaceHold(facts, memory, now) ?? mediaHold(facts) ?? runtimeHold(memory));
  const held = cancelHold(facts) ?? waiting;
  // The runtime may wait long for the medium of the layers that it pulls.
  const isLost = isPulling && facts.carriers.length === 0 && facts.pullableImages.length === 0;
  const lost = isLost ? mediaHold(facts)?.reason : copyFaultOf(facts, memory);
  return reached === undefined || reached === 'ready'
    ? (held ?? defined({ phase: 'preloading', reason: lost }))
    : { phase: reached, reason: held?.reason ?? imagesMissing(facts) };
}

/** Why an artifact that a medium has is not copied. */
function copyFaultOf({ bundle, copyableArtifacts }: BundleFacts, { copyFaults }: Memory): Fault | undefined {
  if (copyableArtifacts.length === 0 || copyFaults === undefined) return undefined;
  const layers = artifactLayers({ ...bundle.contents, artifacts: copyableArtifacts });
  return layers.map(({ digest }) => copyFaults.get(digest)).find((fault) => fault !== undefined);
}

function unpinned(facts: BundleFacts, reached: ReachedPhase | undefined, observed: Observed, memory: Memory): PhaseOf {
  const reason = pinReason(facts, observed, memory);
  if (reached !== undefined) return { phase: reached, reason };
  return reason.code === 'runtime/pins-ignored'
    ? { phase: 'held', hold: 'runtime', reason }
    : { phase: 'preloading', reason };
}

/** INVARIANT: a release that a power cut would destroy is neither reported nor recorded. */
function unsynced(facts: BundleFacts, reached: ReachedPhase | undefined, memory: Memory): PhaseOf {
  const reason = syncReason(facts, memory);
  if (reached !== undefined) return { phase: reached, reason };
  return memory.storage?.failure === undefined
    ? { phase: 'preloading', reason }
    : { phase: 'held', hold: 'runtime', reason };
}

function settled(bundle: StoredBundle, bundles: readonly StoredBundle[], reached: ReachedPhase = 'ready'): PhaseOf {
  return defined({ phase: reached, reason: rollbackReason(bundle, bundles) });
}

type VersionReason = Extract<RuntimeReason, { readonly code: 'runtime/version' }>;

export type RuntimeSupport =
  | { readonly kind: 'supported' }
  /** The runtime is not tested with stickpin. stickpin continues, and `doctor` warns. */
  | { readonly kind: 'untried'; readonly runtime: string }
  /** The version can't be read. stickpin continues, and `doctor` warns. `needed`: `CRI-O 1.28`. */
  | { readonly kind: 'unreadable'; readonly runtime: string; readonly needed: string }
  | { readonly kind: 'unsupported'; readonly reason: VersionReason };

/** @param name CRI's `Version`, such as `containerd 1.6.20~ds1` or `containerd v1.7.11-k3s2` */
export function runtimeSupport(name: string): RuntimeSupport {
  const [runtime = '', version = ''] = name.trim().split(/\s+/);
  const known = RUNTIME_NAMES.find((one) => one === runtime.toLowerCase());
  if (known === undefined) return { kind: 'untried', runtime: name };
  const [, major, minor] = /^v?(\d{1,6})\.(\d{1,6})(?!\d)/.exec(version) ?? [];
  const { title, least } = RUNTIMES[known];
  const needed = `${title} ${least.major}.${least.minor}`;
  if (major === undefined || minor === undefined) return { kind: 'unreadable', runtime: name, needed };
  const isOld = Number(major) < least.major || (Number(major) === least.major && Number(minor) < least.minor);
  if (!isOld) return { kind: 'supported' };
  return { kind: 'unsupported', reason: { code: 'runtime/version', data: { runtime: name, needed } } };
}

export function unsupportedReason(runtime: RuntimeObservation): VersionReason | undefined {
  if (runtime.kind !== 'reachable') return undefined;
  const support = runtimeSupport(runtime.name);
  return support.kind === 'unsupported' ? support.reason : undefined;
}
