import type { FleetView } from '../domain/fleet/node-status.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface FleetPort {
  /** It is undefined if the fleet process is silent, or `fleet.enabled` is false. No I/O. */
  view(): FleetView | undefined;
  /** Whether it has not answered for minutes, so that a person must act. No I/O. */
  isSilent(): boolean;
  onChange(listener: () => void): Unsubscribe;
}
