import type { Medium, MediumId } from '../domain/model/medium.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** What is plugged in. */
export interface MediaView {
  /** Everything plugged in now, in the order of arrival. No I/O. */
  list(): readonly Medium[];
  /** Whether all that was plugged in when the daemon started is listed by now. No I/O. */
  isLookedAt(): boolean;
  /**
   * Looks whether what was mounted still is: a medium that somebody unmounted becomes `unmounted`,
   * one that somebody mounted elsewhere `attached`. Costs one read of a file of the kernel; never
   * throws but for an abort.
   */
  refresh(signal: AbortSignal): Promise<void>;
  /** Calls `listener` when a medium came, went or changed its state. */
  onChange(listener: () => void): Unsubscribe;
}

/** What is done with a medium. */
export interface MediaControl {
  /**
   * Mounts an `attached` medium read-only. A failure is not thrown but becomes its state `failed`.
   * Idempotent.
   */
  mount(mediumId: MediumId, signal: AbortSignal): Promise<void>;
  /**
   * Finds and judges the bundles of a `mounted` or `read` medium; it becomes `read` or `failed`.
   * Idempotent.
   */
  read(mediumId: MediumId, signal: AbortSignal): Promise<void>;
}

/** All media. Adapters hold the state of each in memory; nothing of it is stored. */
export type MediaPort = MediaView & MediaControl;
