import type { FleetView } from '../domain/fleet/node-status.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** What the fleet process reports about the other nodes of the cluster. */
export interface FleetPort {
  /**
   * The last known state. Undefined while the fleet process does not answer, or `fleet.enabled` is
   * false. No I/O.
   */
  view(): FleetView | undefined;
  /** Calls `listener` when the view may have changed. */
  onChange(listener: () => void): Unsubscribe;
}
