import type { BundleId } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { RuleCode } from '../model/reason.ts';
import type { RejectedName, Verdict } from '../trust/approval.ts';

export interface PinnedRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** References of its pinned images, sorted. */
  readonly references: readonly string[];
}

/** `media`: plugged in then and ever since. Any other medium resumes the preload. */
interface Cancellation {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly media: readonly MediumId[];
}

/** What the documents of a bundle do not show. Times are milliseconds since the epoch. */
export interface KnownRelease {
  readonly bundleId: BundleId;
  readonly adoptedAt: number;
  /** Its pins were present at its adoption: its earlier records were lost. */
  readonly claimedAt?: number;
  /** Its stream was reset: its sequence and its `created` no longer count. */
  readonly resetAt?: number;
  /** The first time that every image was present and pinned. */
  readonly readyAt?: number;
  /** By a person, by containers that run without an activation, or by a rollback. */
  readonly activationRequestedAt?: number;
  /** Rules that don't hold the requested activation. */
  readonly activationOverrides?: readonly RuleCode[];
  readonly activatedAt?: number;
  /** Containers of the present activation were first seen running. */
  readonly activeAt?: number;
  readonly provenAt?: number;
  /** The earlier release runs again, or a person went back. */
  readonly rolledBackAt?: number;
  readonly rolledBackReason?: string;
  readonly cancelled?: Cancellation;
  /** It has no images, so no pins. */
  readonly isNotice?: boolean;
}

export interface SoakRun {
  readonly key: string;
  readonly containerId: string;
  readonly startedAt: number;
  /** Uptime of the machine, in milliseconds, when it was first seen. */
  readonly sinceMs: number;
}

export interface ComponentSoak {
  readonly component: string;
  /** Its images distinguish the release. Others are followed only for `lifecycle.require`. */
  readonly counts: boolean;
  readonly runs: readonly SoakRun[];
  /** Containers that ended with an error and were not started again yet. */
  readonly failed: readonly string[];
  /** Uptime when it last failed or was started again. */
  readonly disturbedMs?: number;
  /** When its newest container started, by the runtime's clock. */
  readonly startedAt: number;
}

/**
 * The soak clock of one activation. It counts the machine's uptime, since the wall clock may jump:
 * a container that outlives a pause of the daemon has run meanwhile. A reboot starts it again.
 */
export interface Soak {
  readonly activatedAt: number;
  readonly bootId: string;
  readonly components: readonly ComponentSoak[];
  /** Uptime since which only the earlier release runs. */
  readonly backSinceMs?: number;
  /** How long there was no evidence; absent once there was. */
  readonly unseen?: UnseenTime;
  /** Why it counts as proven without the soak time. */
  readonly proof?: 'hand' | 'without-evidence';
}

/** Time between two observations of the containers without a container of the release. */
interface UnseenTime {
  readonly totalMs: number;
  /** Uptime of the machine at the end of the counted time. */
  readonly atMs: number;
}

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
