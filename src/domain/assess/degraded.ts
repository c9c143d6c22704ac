import type { Reason } from '../model/reason.ts';
import { worstFailure } from '../preload/hold.ts';
import { refusalReason, refusalsOf } from '../preload/refusal.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';

/** What went wrong with a bundle, from its failures that are not repaired. */
export interface Troubles {
  /** What went wrong last, if anything; the next try may repair it. */
  readonly trouble: Reason | undefined;
  /** Why the quick tries failed. The rest of the bundle continues. */
  readonly degraded: Reason | undefined;
}

/**
 * Sorts out the failures of one bundle. `configFault`: what takes its pins or mirrors away;
 * it matters where nothing else does.
 */
export function troublesOf(
  bundle: StoredBundle,
  failures: readonly TaskFailure[],
  configFault: Reason | undefined,
): Troubles {
  const lasting = failures.filter(({ retryAt, isExhausted }) => retryAt === undefined || isExhausted);
  return { trouble: oneReason(bundle, failures) ?? configFault, degraded: oneReason(bundle, lasting) ?? configFault };
}

/** A policy refuses many images for the same reason, so they count as one fault. */
function oneReason(bundle: StoredBundle, failures: readonly TaskFailure[]): Reason | undefined {
  const worst = worstFailure(failures);
  if (worst?.code !== 'runtime/policy') return worst;
  return refusalReason(bundle, refusalsOf(bundle, failures));
}
