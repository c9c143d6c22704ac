import type { BundleId } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { RuleCode } from '../model/rule-code.ts';

/**
 * When a preload was cancelled, and the media that were plugged in then and still are: any other
 * makes it go on.
 */
export interface Cancellation {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly media: readonly MediumId[];
}

/**
 * What is recorded of an adopted bundle, in the database and beside it, and can't be read from its
 * documents. Times are milliseconds since the epoch.
 */
export interface KnownRelease {
  readonly bundleId: BundleId;
  readonly adoptedAt: number;
  /** Its pins were present before it was adopted, since its earlier records had been lost. */
  readonly claimedAt?: number;
  /**
   * Its stream was reset (`stickpin trust reset`) when it was known already: its sequence and its
   * `created` do not count any more.
   */
  readonly resetAt?: number;
  /** First time that every image was present and pinned. */
  readonly readyAt?: number;
  /**
   * Activation was requested: by a person (`stickpin activate`), or because its containers run
   * without an activation, or run again after a rollback of another release.
   */
  readonly activationRequestedAt?: number;
  /**
   * Rules that don't hold the activation that was requested last: a person has confirmed it, or
   * its containers run already.
   */
  readonly activationOverrides?: readonly RuleCode[];
  /** Activation was done. */
  readonly activatedAt?: number;
  /** Containers of the present activation were seen running for the first time. */
  readonly activeAt?: number;
  /** It had run for the soak time. */
  readonly provenAt?: number;
  /** It had been active and the release before runs again, or a person went back. */
  readonly rolledBackAt?: number;
  readonly rolledBackReason?: string;
  /** A person cancelled its preload (`stickpin cancel`). */
  readonly cancelled?: Cancellation;
  /** It has no images: nothing of it is pinned. Default false. */
  readonly isNotice?: boolean;
}
