import type { Unsubscribe } from '../../platform/subscription.ts';

/**
 * A device unit that came into memory, left it, or changed. `resync`: some may have been missed,
 * look at all of them.
 */
export type DeviceUnitEvent =
  | { readonly kind: 'new' | 'removed' | 'changed'; readonly unit: string }
  | { readonly kind: 'resync' };

/** systemd, as far as media need it: device units and transient mounts. host/ implements it. */
export interface DeviceUnits {
  /** Names of the units in memory that fit one of the patterns. */
  listUnits(patterns: readonly string[], signal: AbortSignal): Promise<readonly string[]>;
  /**
   * One property of a unit in memory, as `ActiveState` of `Unit` or `SysFSPath` of `Device`;
   * undefined when there is no such unit.
   */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** Calls `listener` for each event; with `resync` first, as soon as systemd can be asked. */
  onDeviceUnit(listener: (event: DeviceUnitEvent) => void): Unsubscribe;
  /** Mounts by a transient unit that goes away with its device. */
  mount(
    request: {
      readonly unit: string;
      readonly description: string;
      readonly what: string;
      readonly where: string;
      readonly type: string;
      readonly options: string;
    },
    signal: AbortSignal,
  ): Promise<void>;
  /** Stops a unit; nothing happens when there is none. */
  stopUnit(unit: string, signal: AbortSignal): Promise<void>;
}
