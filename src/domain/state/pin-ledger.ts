import type { BundleId } from '../model/digest.ts';
import type { RejectedName, Verdict } from '../trust/approval.ts';
import type { KnownRelease } from './known-release.ts';

/** A release whose images are pinned, or were. */
export interface PinnedRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** References of its pinned images, sorted. */
  readonly references: readonly string[];
}

/** How far a state database had come when something was written beside it. */
export interface StateAge {
  /** Identifies the database: a new one has another origin. */
  readonly origin: string;
  /** Number of its newest event. */
  readonly revision: number;
}

/** What a {@link PinLedger} says about pins. References are sorted, each once. */
export interface PinRecord {
  /** Releases that have pins, with unclaimed ones as far as their release is known. */
  readonly releases: readonly PinnedRelease[];
  /** Pins of releases that the database does not know. */
  readonly unclaimed: readonly string[];
  /** Unclaimed pins that a person gave up and that the runtime may still show. */
  readonly givenUp: readonly string[];
  /** What else is recorded of bundles that are kept or that were lost. Default nothing. */
  readonly known?: readonly KnownRelease[];
  /** What people said about bundles. Default nothing. */
  readonly verdicts?: readonly Verdict[];
  /** Names that people rejected. Default none. */
  readonly rejectedNames?: readonly RejectedName[];
}

/** What is remembered of pins outside the database, so that a lost database drops none of them. */
export interface PinLedger extends PinRecord {
  /** The database that this agrees with. */
  readonly state: StateAge;
  /**
   * The latest time that was recorded of any bundle then, in milliseconds since the epoch; see
   * `latestStamp`.
   */
  readonly stamp: number;
}
