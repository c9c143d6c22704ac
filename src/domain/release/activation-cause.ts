import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';

/**
 * What let a release be activated for which nobody asked: a window of the node, the turn of the
 * node in its rollout, or else its schedule alone.
 */
export function automaticCause(
  { payload }: Pick<StoredBundle, 'payload'>,
  { update }: Pick<Policy, 'update'>,
): 'window' | 'rollout' | 'schedule' {
  if (update.strategy === 'window') return 'window';
  return payload.update?.rollout === undefined ? 'schedule' : 'rollout';
}
