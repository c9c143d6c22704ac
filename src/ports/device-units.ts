import type { Unsubscribe } from '../platform/subscription.ts';

/** `resync`: events may be lost, check all units. */
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

/** The part of systemd that media use: device units and transient mounts. */
export interface DeviceUnits {
  /** Loaded units only. */
  listUnits(patterns: readonly string[], signal: AbortSignal): Promise<readonly string[]>;
  /** As `ActiveState` of `Unit`. Undefined when the unit is not loaded. */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** The first event is `resync`, as soon as systemd answers. */
  onDeviceUnit(listener: (event: DeviceUnitEvent) => void): Unsubscribe;
  /** Mounts with a transient unit that stops when its device is removed. */
  mount(request: MountRequest, signal: AbortSignal): Promise<void>;
  /** Does nothing when there is no such unit. */
  stopUnit(unit: string, signal: AbortSignal): Promise<void>;
}
