import type { BundleId } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { RuleCode } from '../model/reason.ts';

export interface PinnedRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** References of its pinned images, sorted. */
  readonly references: readonly string[];
}

/** `media`: plugged in at the time and ever since; any other medium resumes the preload. */
interface Cancellation {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly media: readonly MediumId[];
}

/**
 * What is recorded of an adopted bundle, in the database and beside it, and is not in its
 * documents. Times are milliseconds since the epoch.
 */
export interface KnownRelease {
  readonly bundleId: BundleId;
  readonly adoptedAt: number;
  /** Its pins were present before it was adopted, since its earlier records had been lost. */
  readonly claimedAt?: number;
  /**
   * Its stream was reset (`stickpin trust reset`) when it was known already: its sequence and its
   * `created` no longer count.
   */
  readonly resetAt?: number;
  /** First time that every image was present and pinned. */
  readonly readyAt?: number;
  /**
   * By a person (`stickpin activate`), or because its containers run without an activation, or run
   * again after a rollback of another release.
   */
  readonly activationRequestedAt?: number;
  /**
   * Rules that don't hold the requested activation: a person has confirmed it, or its containers
   * run already.
   */
  readonly activationOverrides?: readonly RuleCode[];
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
  /** It has no images, so no pins. Default false. */
  readonly isNotice?: boolean;
}

/** A running container, and since when it is known. */
export interface SoakRun {
  readonly key: string;
  readonly containerId: string;
  readonly startedAt: number;
  /** Uptime of the machine, in milliseconds, when it was first seen. */
  readonly sinceMs: number;
}

export interface ComponentSoak {
  readonly component: string;
  /**
   * Whether its images distinguish the release; others are followed only because
   * `lifecycle.require` names them.
   */
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
 * The soak clock of one activation. It counts the machine's uptime, not the wall clock, which may
 * jump: the same container after a pause of the daemon has run on meanwhile. Nothing of it outlives
 * a reboot, since no container does.
 */
export interface Soak {
  readonly activatedAt: number;
  readonly bootId: string;
  readonly components: readonly ComponentSoak[];
  /** Uptime since which the release before runs again and nothing of this one. */
  readonly backSinceMs?: number;
  /** How long there was no evidence; absent once there was. */
  readonly unseen?: UnseenTime;
  /**
   * Why it counts as proven without the soak time: a person said so, or there was no evidence for
   * long enough (`lifecycle.without_evidence`).
   */
  readonly proof?: 'hand' | 'without-evidence';
}

/** Time between two observations of the containers without a container of the release. */
interface UnseenTime {
  /** So far, over reboots. */
  readonly totalMs: number;
  /** Uptime of the machine at the end of the counted time. */
  readonly atMs: number;
}
