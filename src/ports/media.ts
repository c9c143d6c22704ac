import type { Medium, MediumId } from '../domain/model/medium.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface MediaView {
  /** The media in the order of arrival. No I/O. */
  list(): readonly Medium[];
  /** Whether all media that were plugged in at the start of the daemon are listed. No I/O. */
  isListed(): boolean;
  /** Checks the mounts: media may become `unmounted` or `attached`. Throws only for an abort. */
  refresh(signal: AbortSignal): Promise<void>;
  onChange(listener: () => void): Unsubscribe;
}

interface MediaControl {
  /** Mounts an `attached` medium read-only. A failure becomes its state `failed`. Idempotent. */
  mount(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /** Finds and verifies the bundles. The medium becomes `read` or `failed`. Idempotent. */
  read(mediumId: MediumId, signal: AbortSignal): Promise<void>;
}

export type MediaPort = MediaView & MediaControl;

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
  /** For example `ActiveState` of `Unit`. Returns undefined when the unit is not loaded. */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** The first event is `resync`, as soon as systemd answers. */
  onDeviceUnit(listener: (event: DeviceUnitEvent) => void): Unsubscribe;
  /** Mounts with a transient unit that stops when its device is removed. */
  mount(request: MountRequest, signal: AbortSignal): Promise<void>;
  /** Does nothing when there is no such unit. */
  stopUnit(unit: string, signal: AbortSignal): Promise<void>;
}
