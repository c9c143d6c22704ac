import type { Unsubscribe } from '../platform/subscription.ts';

/**
 * A device unit was loaded, unloaded, or changed. `resync`: events may be lost, check all units.
 */
export type DeviceUnitEvent =
  | { readonly kind: 'new' | 'removed' | 'changed'; readonly unit: string }
  | { readonly kind: 'resync' };

/** A filesystem to mount by a transient unit (systemd.mount(5)). */
export interface MountRequest {
  /** `run-stickpin-media-7\x2dsdb1.mount`; must be the escaped form of `where`. */
  readonly unit: string;
  readonly description: string;
  readonly what: string;
  readonly where: string;
  readonly type: string;
  /** Comma-separated, as in fstab(5). */
  readonly options: string;
}

/** The part of systemd that media use: device units and transient mounts. `host/` implements it. */
export interface DeviceUnits {
  /** Names of the loaded units that match one of the patterns. */
  listUnits(patterns: readonly string[], signal: AbortSignal): Promise<readonly string[]>;
  /**
   * One property of a loaded unit, for example `ActiveState` of `Unit` or `SysFSPath` of `Device`.
   * Undefined when it is not loaded.
   */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** Calls `listener` for each event. The first one is `resync`, as soon as systemd answers. */
  onDeviceUnit(listener: (event: DeviceUnitEvent) => void): Unsubscribe;
  /** Mounts with a transient unit that stops when its device is removed. */
  mount(request: MountRequest, signal: AbortSignal): Promise<void>;
  /** Stops a unit. Does nothing when there is none. */
  stopUnit(unit: string, signal: AbortSignal): Promise<void>;
}
