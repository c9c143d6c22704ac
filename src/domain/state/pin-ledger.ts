import type { RejectedName, Verdict } from '../trust/approval.ts';
import type { KnownRelease, PinnedRelease } from './release-record.ts';

/** The progress of a state database when something was written beside it. */
export interface StateAge {
  /** Identifies the database: a new one has another origin. */
  readonly origin: string;
  /** Number of its newest event. */
  readonly revision: number;
}

/** References are sorted, each once. */
export interface PinRecord {
  /** With unclaimed pins as far as their release is known. */
  readonly releases: readonly PinnedRelease[];
  /** Pins of releases that the database does not know. */
  readonly unclaimed: readonly string[];
  /** Unclaimed pins that a person gave up and that the runtime may still show. */
  readonly givenUp: readonly string[];
  /** Records of bundles that are kept or that were lost. Default nothing. */
  readonly known?: readonly KnownRelease[];
  /** Default nothing. */
  readonly verdicts?: readonly Verdict[];
  /** Default none. */
  readonly rejectedNames?: readonly RejectedName[];
}

/** Pins outside the database, so that a lost database drops none of them. */
export interface PinLedger extends PinRecord {
  readonly state: StateAge;
  /** The latest recorded time of any bundle, in milliseconds since the epoch; see `latestStamp`. */
  readonly stamp: number;
}

/** Protects from older bundles. Stored beside the bundles themselves, so that it outlives them. */
export interface Floors {
  /** The highest activated sequence of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /** Of the adopted bundles of each stream, in milliseconds since the epoch. */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** Number of resets of each stream (`stickpin trust reset`). Default none. */
  readonly resets?: ReadonlyMap<string, number>;
  /**
   * Streams whose sequence is a lower bound only: a higher one may have been activated before the
   * floors were lost. Default none.
   */
  readonly doubted?: ReadonlySet<string>;
  /**
   * They were lost on this node: what was activated of a stream that is not in {@link sequences} is
   * unknown.
   */
  readonly areLost: boolean;
}
