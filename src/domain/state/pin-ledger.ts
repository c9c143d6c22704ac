import type { RejectedName, Verdict } from '../trust/approval.ts';
import type { KnownRelease, PinnedRelease } from './release-record.ts';

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

/**
 * What protects from older bundles, remembered beside the bundles themselves, so that it outlives
 * them.
 */
export interface Floors {
  /** The highest sequence that was activated of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /**
   * The newest `created` of the adopted bundles of each stream, in milliseconds since the epoch.
   */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** How often each stream was reset (`stickpin trust reset`). Default never. */
  readonly resets?: ReadonlyMap<string, number>;
  /**
   * Streams whose sequence is a lower bound only: a higher one may have been activated before the
   * floors were lost. Default none.
   */
  readonly doubted?: ReadonlySet<string>;
  /**
   * They were lost on this node: of a stream that is not in {@link sequences} nobody knows what was
   * activated.
   */
  readonly areLost: boolean;
}
