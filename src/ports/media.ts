import type { Medium, MediumId } from '../domain/model/medium.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface MediaView {
  /** In the order of arrival. No I/O. */
  list(): readonly Medium[];
  /** Whether all media that were plugged in at the start of the daemon are listed. No I/O. */
  isLookedAt(): boolean;
  /** Checks the mounts: media may become `unmounted` or `attached`. Throws only for an abort. */
  refresh(signal: AbortSignal): Promise<void>;
  onChange(listener: () => void): Unsubscribe;
}

export interface MediaControl {
  /** Mounts an `attached` medium read-only. A failure becomes its state `failed`. Idempotent. */
  mount(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /** Finds and verifies the bundles. The medium becomes `read` or `failed`. Idempotent. */
  read(mediumId: MediumId, signal: AbortSignal): Promise<void>;
}

export type MediaPort = MediaView & MediaControl;
