import type { NodeFacts } from '../model/node-facts.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';

/**
 * Whether a release is activated without being asked for: neither it nor the node wants a person.
 */
export function isAutomatic({ payload }: Pick<StoredBundle, 'payload'>, { update }: Pick<Policy, 'update'>): boolean {
  return update.strategy !== 'manual' && (payload.schedule ?? 'immediate') === 'immediate';
}

/** The time zone of the windows: that of the setting, or the node's own. */
export function zoneOf({ update }: Pick<Policy, 'update'>, { timeZone }: NodeFacts): string {
  return update.time_zone === 'localtime' ? timeZone : update.time_zone;
}
