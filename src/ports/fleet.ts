import type { FleetView } from '../domain/fleet/node-status.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface FleetPort {
  /** Undefined while the fleet process does not answer, or `fleet.enabled` is false. No I/O. */
  view(): FleetView | undefined;
  onChange(listener: () => void): Unsubscribe;
}
