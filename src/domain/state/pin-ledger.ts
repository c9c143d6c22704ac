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
  readonly known?: readonly KnownRelease[];
  readonly verdicts?: readonly Verdict[];
  readonly rejectedNames?: readonly RejectedName[];
}

/** Pins outside the database, so that a lost database drops none of them. */
export interface PinLedger extends PinRecord {
  readonly state: StateAge;
  /** The latest recorded time of any bundle, in milliseconds since the epoch; see `latestStamp`. */
  readonly stamp: number;
}

/** Protects from older bundles. Outlives the bundles. */
export interface Floors {
  /** The highest activated sequence of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /** Of the adopted bundles of each stream, in milliseconds since the epoch. */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** Number of resets of each stream (`stickpin trust reset`). */
  readonly resets?: ReadonlyMap<string, number>;
  /** Streams whose sequence is a lower bound, because the floors were lost. */
  readonly doubted?: ReadonlySet<string>;
  /** They were lost: the activations of streams outside {@link sequences} are unknown. */
  readonly areLost: boolean;
}
