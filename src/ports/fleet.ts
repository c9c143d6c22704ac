import type { FleetView } from '../domain/fleet/node-status.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface FleetPort {
  /** Undefined while the fleet process does not answer, or `fleet.enabled` is false. No I/O. */
  view(): FleetView | undefined;
  /** It has not answered for minutes: it does not end by itself. No I/O. */
  isSilent(): boolean;
  onChange(listener: () => void): Unsubscribe;
}
