import type { FleetView } from '../fleet/node-status.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';
import type { BootTime, ImageUses, RuntimeContainer, RuntimeObservation } from '../model/image.ts';
import type { Medium } from '../model/medium.ts';
import type { NodeFacts } from '../model/node-facts.ts';
import type { Policy } from '../settings/settings.ts';
import type { Approvals, KeyRotation, RejectedName, Revocations, Verdict } from '../trust/approval.ts';
import type { Role } from '../trust/role.ts';
import type { TrustInForce } from '../trust/trust-in-force.ts';
import type { BadBlob } from './checks.ts';
import type { StateAge } from './pin-ledger.ts';
import type { KnownRelease, Soak } from './release-record.ts';

/**
 * A bundle that was adopted: trusted once, kept in the database from then on. Times are
 * milliseconds since the epoch.
 */
export interface StoredBundle extends VerifiedBundle, Omit<KnownRelease, 'isNotice'> {
  /**
   * Its tags have begun to move, and the activation is not done yet. Absent before, and once it is
   * done or given up.
   */
  readonly activationBegunAt?: number;
  /** It was unpinned, by the rule or by a person. */
  readonly retiredAt?: number;
  /** Whether the images that it alone has are removed after its retirement. */
  readonly removeImages?: boolean;
  /** The soak clock of its present activation. */
  readonly soak?: Soak;
  /**
   * Damaged and missing blobs on media, as of the last round that saw one; absent when there were
   * none.
   */
  readonly badBlobs?: readonly BadBlob[];
}

/** What can't be observed and is therefore stored. */
export interface Stored {
  /** In the order of adoption. */
  readonly bundles: readonly StoredBundle[];
  /**
   * References that stickpin pulled when the runtime had no image of that digest: only these may be
   * removed.
   */
  readonly pulledByUs?: ReadonlySet<string>;
  /** One of each digest. */
  readonly verdicts: readonly Verdict[];
  /** One of each name. Default none. */
  readonly rejectedNames?: readonly RejectedName[];
  readonly rotation: KeyRotation;
  /** Default: as in the pin ledger. */
  readonly age?: StateAge;
}

export function approvalsIn(
  { verdicts, rejectedNames = [] }: Pick<Stored, 'verdicts' | 'rejectedNames'>,
  policy: Pick<Policy, 'trust'>,
): Approvals {
  return { policy: policy.trust, verdicts, rejectedNames };
}

/** All that one round observed. What the engine remembers is in `Memory`. */
export interface Observed {
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  /** By an outside source (timedatectl's NTPSynchronized). */
  readonly clockSynchronised: boolean;
  readonly facts: NodeFacts;
  /** GOARCH of this node. */
  readonly arch: string;
  /** Changes with the set of trusted keys. */
  readonly trustRevision: string;
  readonly revocations: Revocations;
  /** Default none. */
  readonly roles?: readonly Role[];
  /** For display. */
  readonly trust: TrustInForce;
  readonly media: readonly Medium[];
  /** Manifests, configs and layers on the node's own disk. */
  readonly localBlobs: ReadonlySet<Digest>;
  /**
   * The node's own copies of layers are on the filesystem of the runtime's images; default false.
   */
  readonly layersBesideImages?: boolean;
  readonly runtime: RuntimeObservation;
  /** Listed only when something depends on them; undefined when they were not, or could not be. */
  readonly containers: readonly RuntimeContainer[] | undefined;
  readonly boot: BootTime;
  /** Undefined when they were not listed. */
  readonly imageUses?: ImageUses | undefined;
  /** Undefined when the fleet process does not answer or is off. */
  readonly fleet?: FleetView | undefined;
}

/**
 * A time for an event of now: later than every activation, every request for one and all that
 * followed, also when the wall clock has fallen back, as on a node without a battery-backed clock.
 * Their order decides what is activated.
 */
export function stampAfter(bundles: readonly StoredBundle[], now: number): number {
  return Math.max(now, 1 + latestStamp(bundles));
}

/** The latest time of {@link stampAfter} among these bundles; 0 when there is none. */
export function latestStamp(bundles: readonly StoredBundle[]): number {
  const times = bundles.flatMap(
    ({ activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt }) =>
      [activatedAt, activationBegunAt, activationRequestedAt, activeAt, provenAt, retiredAt, rolledBackAt].map(
        (time) => time ?? 0,
      ),
  );
  return Math.max(0, ...times);
}
