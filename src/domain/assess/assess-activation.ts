import { sequenceOf } from '../adoption/floors.ts';
import type { GateContext } from '../gates/gate.ts';
import { type ActivationHold, askGates } from '../gates/gates.ts';
import { placeIn } from '../path/read-paths.ts';
import { isAskedFor, isRetired } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';

/** What one round concludes about the activation of one release. */
export interface ActivationVerdict {
  /**
   * Whether activation is due: wanted, and held by no gate, or only delayed by one. Its images may
   * still be missing.
   */
  readonly activationDue: boolean;
  /** See {@link isAskedFor}. Default false. */
  readonly isAskedFor?: boolean;
  /**
   * What holds its activation, the first one first; empty when all gates let it pass, and when its
   * activation is done.
   */
  readonly holds: readonly ActivationHold[];
  /**
   * When a gate may say something else, in milliseconds since the epoch; undefined when time
   * changes nothing.
   */
  readonly lookAgainAt: number | undefined;
}

/** What gates look at beside the release. */
type ActivationContext = Omit<GateContext, 'bundle'>;

/** Asks the gates, and whether anything wants the release activated at all. */
export function assessActivation(bundle: StoredBundle, context: ActivationContext): ActivationVerdict {
  const { holds, lookAgainAt } = askGates({ ...context, bundle });
  const isFree = holds.every(({ keepsDue }) => keepsDue === true);
  const activationDue = isFree && isWanted(bundle, context);
  return { activationDue, isAskedFor: isAskedFor(bundle, context.bundles), holds, lookAgainAt };
}

/**
 * Whether a release is to be activated once no gate holds it: it was asked for, and nothing of its
 * stream was activated since; or it was never activated, and nothing of its stream with a higher
 * sequence was either, unless it is a downgrade that is allowed.
 */
function isWanted(bundle: StoredBundle, { bundles, path }: ActivationContext): boolean {
  if (isRetired(bundle)) return false;
  if (bundle.activationRequestedAt !== undefined) return isAskedFor(bundle, bundles);
  if (bundle.activatedAt !== undefined) return false;
  if (path.allowDowngrade && placeIn(path, bundle).isLate === true) return true;
  const others = bundles.filter((other) => other.payload.name === bundle.payload.name && other !== bundle);
  return others.every((other) => other.activatedAt === undefined || sequenceOf(other) < sequenceOf(bundle));
}
