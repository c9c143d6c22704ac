import { labelOf, type ReleaseReason } from '../../model/reason.ts';
import type { StoredBundle } from '../../state/state.ts';
import { isAskedFor, isRolledBack } from '../recorded-phase.ts';

/**
 * That a release was rolled back, or is being: its tags are the ones that hold until the release to
 * which it goes back is activated. Undefined when it was not since its activation.
 */
export function rollbackReason(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
): Extract<ReleaseReason, { readonly code: 'engine/rolled-back' }> | undefined {
  const { payload, rolledBackReason: recorded } = bundle;
  if (!isRolledBack(bundle) || recorded === undefined) return undefined;
  const to = goesBackTo(bundle, bundles);
  const open = to && { from: labelOf(payload), to: labelOf(to.payload) };
  return { code: 'engine/rolled-back', data: { recorded, ...(open !== undefined && { open }) } };
}

/**
 * The release to which a rolled back one goes back, while its activation is not done; undefined
 * when it is done, or when something else was activated since.
 */
function goesBackTo({ payload, rolledBackAt = 0 }: StoredBundle, bundles: readonly StoredBundle[]) {
  return bundles.find(
    (other) =>
      other.payload.name === payload.name &&
      (other.activationRequestedAt ?? 0) > rolledBackAt &&
      isAskedFor(other, bundles),
  );
}
