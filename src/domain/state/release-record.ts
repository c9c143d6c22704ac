import * as v from 'valibot';
import type { BundleId } from '../model/digest.ts';
import type { BootTime } from '../model/image.ts';
import type { MediumId } from '../model/medium.ts';
import { RULE_CODES } from '../model/reason.ts';
import type { BadBlob } from './checks.ts';

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

const time = v.exactOptional(v.number());

/**
 * What is recorded of a release beside its documents. Times are milliseconds since the epoch. A new
 * member needs no more than its line here: the database and its mirror follow.
 */
export const releaseRecordSchema = v.object({
  adoptedAt: v.number(),
  /** Its pins were present at its adoption: its earlier records were lost. */
  claimedAt: time,
  /** Its stream was reset: its sequence and its `created` no longer count. */
  resetAt: time,
  /** The first time that every image was present and pinned. */
  readyAt: time,
  /** By a person, by containers that run without an activation, or by a rollback. */
  activationRequestedAt: time,
  /** Rules that don't hold the requested activation. */
  activationOverrides: v.exactOptional(v.pipe(v.array(v.picklist(RULE_CODES)), v.readonly())),
  /** Its tags have begun to move, and the activation is neither done nor given up. */
  activationBegunAt: time,
  activatedAt: time,
  /** Then; absent of a rebuilt release. */
  activatedUptime: v.exactOptional(
    v.custom<BootTime>((value) => typeof value === 'object' && value !== null && 'bootId' in value),
  ),
  /** Containers of the present activation were first seen running. */
  activeAt: time,
  provenAt: time,
  retiredAt: time,
  /** The images that only it has are removed after its retirement. */
  removeImages: v.exactOptional(v.boolean()),
  /** A person retired it. */
  isGivenUp: v.exactOptional(v.boolean()),
  /** The earlier release runs again, or a person went back. */
  rolledBackAt: time,
  rolledBackReason: v.exactOptional(v.string()),
  /** By a person, and not since its containers went back. */
  isRolledBackByHand: v.exactOptional(v.boolean()),
  soak: v.exactOptional(v.custom<Soak>((value) => typeof value === 'object' && value !== null)),
  badBlobs: v.exactOptional(v.custom<readonly BadBlob[]>(Array.isArray)),
});

export interface ReleaseRecord extends Readonly<v.InferOutput<typeof releaseRecordSchema>> {
  readonly cancelled?: Cancellation;
}

export interface SoakRun {
  readonly key: string;
  /** Empty for a run on somebody's word. */
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
  /** What containers did after the proof, where that differs and other nodes may still soak. */
  readonly afterProof?: { readonly bootId: string; readonly components: readonly ComponentSoak[] };
  /** Why it counts as proven without the soak time. */
  readonly proof?: 'hand' | 'without-evidence';
}

/** Time between two observations of the containers without a container of the release. */
interface UnseenTime {
  readonly totalMs: number;
  /** Uptime of the machine at the end of the counted time. */
  readonly atMs: number;
}

/**
 * Pins that belong to no release of the database. References are sorted, each once.
 */
export interface PinLedger {
  /** Those of {@link unclaimed} whose release is known by name. */
  readonly releases: readonly PinnedRelease[];
  /** Pins of releases that the database does not know. */
  readonly unclaimed: readonly string[];
  /** Unclaimed pins that a person gave up and that the runtime may still show. */
  readonly givenUp: readonly string[];
  /** The database is an earlier one: what it says of retired releases does not count. */
  readonly isDoubted?: boolean;
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
