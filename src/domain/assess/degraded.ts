import type { Reason } from '../model/reason.ts';
import { worstFailure } from '../preload/hold.ts';
import { refusalReason, refusalsOf } from '../preload/refusal.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';

/** What went wrong with a bundle, from its failures that are not mended. */
export interface Troubles {
  /** What went wrong last, if anything; it may be mended by the next try. */
  readonly trouble: Reason | undefined;
  /** What the quick tries did not mend. The rest of the bundle goes on all the same. */
  readonly degraded: Reason | undefined;
}

/**
 * Sorts out the failures of one bundle. `pinFault`: why its pins would not hold, if they would not;
 * it matters where nothing else does.
 */
export function troublesOf(
  bundle: StoredBundle,
  failures: readonly TaskFailure[],
  pinFault: Reason | undefined,
): Troubles {
  const lasting = failures.filter(({ retryAt, isExhausted }) => retryAt === undefined || isExhausted);
  return { trouble: oneReason(bundle, failures) ?? pinFault, degraded: oneReason(bundle, lasting) ?? pinFault };
}

/** What is refused by a policy is refused many times over; it is one trouble. */
function oneReason(bundle: StoredBundle, failures: readonly TaskFailure[]): Reason | undefined {
  const worst = worstFailure(failures);
  if (worst?.code !== 'runtime/policy') return worst;
  return refusalReason(bundle, refusalsOf(bundle, failures));
}
