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

/** `media` were plugged in then and ever since. Any other medium resumes the preload. */
interface Cancellation {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly media: readonly MediumId[];
}

const time = v.exactOptional(v.number());

/**
 * The record of a release beside its documents. Times are milliseconds since the epoch. A new
 * member needs only its line here: the database and its mirror follow.
 */
export const releaseRecordSchema = v.object({
  adoptedAt: v.number(),
  /** Its pins were present at its adoption, so its earlier records were lost. */
  claimedAt: time,
  /** Its stream was reset, so its sequence and its `created` no longer count. */
  resetAt: time,
  /** The first time that every image was present and pinned. */
  readyAt: time,
  /** A person, containers that run without an activation, or a rollback requested it. */
  activationRequestedAt: time,
  /** These rules don't hold the requested activation. */
  activationOverrides: v.exactOptional(v.pipe(v.array(v.picklist(RULE_CODES)), v.readonly())),
  /** Its tags have begun to move, and the activation is neither done nor given up. */
  activationBegunAt: time,
  activatedAt: time,
  /** The uptime at the activation. Absent for a rebuilt release. */
  activatedUptime: v.exactOptional(
    v.custom<BootTime>((value) => typeof value === 'object' && value !== null && 'bootId' in value),
  ),
  /** When containers of the present activation were first seen running. */
  activeAt: time,
  provenAt: time,
  retiredAt: time,
  /** Images that only this release has are removed after its retirement. */
  removeImages: v.exactOptional(v.boolean()),
  /** A person retired it. */
  isGivenUp: v.exactOptional(v.boolean()),
  /** The earlier release runs again, or a person went back. */
  rolledBackAt: time,
  rolledBackReason: v.exactOptional(v.string()),
  /** A person rolled it back, and its containers have not gone back since. */
  isRolledBackByHand: v.exactOptional(v.boolean()),
  soak: v.exactOptional(v.custom<Soak>((value) => typeof value === 'object' && value !== null)),
  badBlobs: v.exactOptional(v.custom<readonly BadBlob[]>(Array.isArray)),
});

export interface ReleaseRecord extends Readonly<v.InferOutput<typeof releaseRecordSchema>> {
  readonly cancelled?: Cancellation;
}

export interface SoakRun {
  readonly key: string;
  /** Empty for an attested run. */
  readonly containerId: string;
  readonly startedAt: number;
  /** Uptime of the machine, in milliseconds, when it was first seen. */
  readonly sinceMs: number;
}

export interface ComponentSoak {
  readonly component: string;
  /** The images distinguish the release. Others are followed only for `lifecycle.require`. */
  readonly counts: boolean;
  readonly runs: readonly SoakRun[];
  /** These containers ended with an error and were not started again yet. */
  readonly failed: readonly string[];
  /** Uptime when it last failed or was started again. */
  readonly disturbedMs?: number;
  /** When its newest container started, by the runtime's clock. */
  readonly startedAt: number;
}

/**
 * The soak clock of one activation. It counts the machine's uptime, since the wall clock may jump:
 * a container that outlives a pause of the daemon has run meanwhile. A reboot restarts it.
 */
export interface Soak {
  readonly activatedAt: number;
  readonly bootId: string;
  readonly components: readonly ComponentSoak[];
  /** Uptime since which only the earlier release runs. */
  readonly backSinceMs?: number;
  /** How long there was no evidence. Absent once there was. */
  readonly unseen?: UnseenTime;
  /** State of containers after the proof, if it differs and other nodes may still soak. */
  readonly afterProof?: { readonly bootId: string; readonly components: readonly ComponentSoak[] };
  /** Why it counts as proven without the soak time. */
  readonly proof?: 'hand' | 'without-evidence';
}

/** Counts time between two observations of the containers without a container of the release. */
interface UnseenTime {
  readonly totalMs: number;
  /** Uptime of the machine at the end of the counted time. */
  readonly atMs: number;
}

/** These pins belong to no release of the database. References are sorted, each once. */
export interface PinLedger {
  /** The part of {@link unclaimed} whose release is known by name. */
  readonly releases: readonly PinnedRelease[];
  /** Pins of releases that the database does not know. */
  readonly unclaimed: readonly string[];
  /** Unclaimed pins that a person gave up and that the runtime may still show. */
  readonly givenUp: readonly string[];
  /** The database is an earlier one, so its retired releases do not count. */
  readonly isDoubted?: boolean;
}

/** Protects from older bundles and outlives the bundles. */
export interface Floors {
  /** The highest activated sequence of each stream. */
  readonly sequences: ReadonlyMap<string, number>;
  /** The newest `created` of each stream's adopted bundles, in milliseconds since the epoch. */
  readonly newestCreated: ReadonlyMap<string, number>;
  /** Number of resets of each stream (`stickpin trust reset`). */
  readonly resets?: ReadonlyMap<string, number>;
  /** Streams whose sequence is a lower bound, because the floors were lost. */
  readonly doubted?: ReadonlySet<string>;
  /** The floors were lost: the activations of streams outside {@link sequences} are unknown. */
  readonly areLost: boolean;
}
