import type { NodeFacts } from '../model/node-facts.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';
import { isTimeZone, UTC } from '../time/time-zone.ts';

/** What wants a person to ask for an activation; undefined when nothing does. */
export function manualBy(
  { payload }: Pick<StoredBundle, 'payload'>,
  { update, fleet }: Pick<Policy, 'update' | 'fleet'>,
): 'release' | 'node' | 'fleet' | undefined {
  if (payload.schedule === 'manual') return 'release';
  if (update.strategy === 'manual') return 'node';
  return fleet.enabled && fleet.activate === 'manual' ? 'fleet' : undefined;
}

/** Whether a release is activated without being asked for. */
export function isAutomatic(bundle: Pick<StoredBundle, 'payload'>, policy: Pick<Policy, 'update' | 'fleet'>): boolean {
  return manualBy(bundle, policy) === undefined;
}

/**
 * The time zone of the windows: that of the setting, or the node's own, and UTC where that is
 * unknown. Asked for only where there are windows: without them the program loads no data of time
 * zones, which take several MiB of memory.
 */
export function zoneOf({ update }: Pick<Policy, 'update'>, { timeZone }: Pick<NodeFacts, 'timeZone'>): string {
  if (update.time_zone !== 'localtime') return update.time_zone;
  return isTimeZone(timeZone) ? timeZone : UTC;
}
