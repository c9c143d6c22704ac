import type { Withdrawal } from '../adoption/trust-withdrawal.ts';
import type { UnlistedRuntime, UnreachableRuntime } from '../model/image/runtime-image.ts';
import type { PhaseOf } from '../model/phase.ts';
import type { Fault } from '../model/reason.ts';
import {
  type BundleFacts,
  baseHold,
  cancelHold,
  imagesMissing,
  mediaHold,
  pinReason,
  runtimeHold,
} from '../preload/hold.ts';
import { spaceHold } from '../preload/space.ts';
import { rollbackReason } from '../release/proof/rollback-reason.ts';
import { type ReachedPhase, reachedPhase } from '../release/recorded-phase.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed, Stored, StoredBundle } from '../state/state.ts';
import { unsupportedReason } from './runtime-support.ts';

/** What a phase is derived from beside the facts of its bundle. */
export interface PhaseContext {
  readonly observed: Observed;
  readonly memory: Memory;
  readonly stored: Stored;
}

/**
 * The phase of an adopted release, with what explains it (docs/architecture.md, "Life of a
 * bundle"). `withdrawal`: why it is not trusted any more, if so; what was never ready falls back to
 * it, what was stays what it is, with the reason.
 */
export function derivePhase(facts: BundleFacts, withdrawal: Withdrawal | undefined, context: PhaseContext): PhaseOf {
  const phase = phaseOf(facts, context);
  if (withdrawal === undefined || phase.phase === 'retired') return phase;
  return facts.bundle.readyAt === undefined ? withdrawal : { ...phase, reason: withdrawal.reason };
}

function phaseOf(facts: BundleFacts, { observed, memory, stored }: PhaseContext): PhaseOf {
  const { bundle, absentImages, unpinnedImages } = facts;
  const reached = reachedPhase(bundle, stored.bundles);
  if (reached === 'retired') return { phase: 'retired' };
  if (observed.runtime.kind !== 'reachable') {
    const reason = awayFault(observed.runtime);
    return reached === undefined ? { phase: 'held', hold: 'runtime', reason } : { phase: reached, reason };
  }
  const tooOld = unsupportedReason(observed.runtime);
  if (tooOld !== undefined) {
    return reached === undefined
      ? { phase: 'held', hold: 'runtime-version', reason: tooOld }
      : { phase: reached, reason: tooOld };
  }
  if (absentImages.length > 0) return incomplete(facts, reached, observed, memory);
  if (unpinnedImages.length > 0) return unpinned(facts, reached, observed, memory);
  return settled(bundle, stored.bundles, reached);
}

/** Images are absent. */
function incomplete(facts: BundleFacts, reached: ReachedPhase | undefined, { now }: Observed, memory: Memory): PhaseOf {
  const { bundleId } = facts.bundle;
  const isPulling = memory.running.some((task) => task.kind === 'pull' && task.bundleId === bundleId);
  const waiting = isPulling
    ? undefined
    : (baseHold(facts) ?? spaceHold(facts, memory, now) ?? mediaHold(facts) ?? runtimeHold(memory));
  const held = cancelHold(facts) ?? waiting;
  // The runtime may wait long for the medium of the layers that it pulls.
  const isLost = isPulling && facts.carriers.length === 0 && facts.pullableImages.length === 0;
  const lost = isLost ? mediaHold(facts)?.reason : undefined;
  return reached === undefined || reached === 'ready'
    ? (held ?? { phase: 'preloading', ...(lost !== undefined && { reason: lost }) })
    : { phase: reached, reason: held?.reason ?? imagesMissing(facts) };
}

/** All is there, and not all is pinned. */
function unpinned(facts: BundleFacts, reached: ReachedPhase | undefined, observed: Observed, memory: Memory): PhaseOf {
  const reason = pinReason(facts, observed, memory);
  if (reached !== undefined) return { phase: reached, reason };
  return reason.code === 'runtime/pins-ignored'
    ? { phase: 'held', hold: 'runtime', reason }
    : { phase: 'preloading', reason };
}

/** All is there and pinned. What went back says so, however far it had come before. */
function settled(bundle: StoredBundle, bundles: readonly StoredBundle[], reached: ReachedPhase = 'ready'): PhaseOf {
  const reason = rollbackReason(bundle, bundles);
  return { phase: reached, ...(reason !== undefined && { reason }) };
}

/** Nothing is known of the runtime's images. */
function awayFault({ kind, reason }: UnlistedRuntime | UnreachableRuntime): Fault {
  return { code: kind === 'unlisted' ? 'runtime/unlisted' : 'runtime/unreachable', message: reason };
}
