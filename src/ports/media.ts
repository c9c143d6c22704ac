import type { Medium, MediumId } from '../domain/model/medium.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** The plugged media. */
export interface MediaView {
  /** All plugged media, in the order of arrival. No I/O. */
  list(): readonly Medium[];
  /** Whether all media that were plugged in at the start of the daemon are listed. No I/O. */
  isLookedAt(): boolean;
  /**
   * Checks the mounts. A medium that somebody unmounted becomes `unmounted`; one that somebody
   * mounted elsewhere becomes `attached`. Reads one kernel file. Throws only for an abort.
   */
  refresh(signal: AbortSignal): Promise<void>;
  /** Calls `listener` when a medium is plugged in, unplugged, or changes its state. */
  onChange(listener: () => void): Unsubscribe;
}

/** Actions on a medium. */
export interface MediaControl {
  /**
   * Mounts an `attached` medium read-only. A failure is not thrown but becomes its state `failed`.
   * Idempotent.
   */
  mount(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /**
   * Finds and verifies the bundles of a `mounted` or `read` medium. The medium becomes `read` or
   * `failed`. Idempotent.
   */
  read(mediumId: MediumId, signal: AbortSignal): Promise<void>;
}

/** All media. Adapters keep their states in memory only. */
export type MediaPort = MediaView & MediaControl;
