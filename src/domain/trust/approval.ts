import type { Payload, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';

/**
 * What lets an unknown bundle in (`trust.require`): signatures of enough trusted keys, the approval
 * of its digest, or both.
 */
export type TrustRequirement = Policy['trust']['require'];

/**
 * What a person said about a bundle digest, ahead of its stick or afterwards. The latest word
 * counts.
 */
export interface Verdict {
  readonly bundleId: BundleId;
  readonly verdict: 'approved' | 'rejected';
  /** Why, in the words of the person; absent when none was given. */
  readonly reason?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/**
 * A release that a person rejected by its name. It counts for every bundle of that name whose
 * digest was not approved later.
 */
export interface RejectedName {
  readonly name: string;
  readonly version: string;
  /** Why, in the words of the person; absent when none was given. */
  readonly reason?: string;
  /** Milliseconds since the epoch; later than every verdict before it. */
  readonly at: number;
}

/**
 * What is known of approvals: from the configuration and from `stickpin approve` and `stickpin
 * reject`.
 */
export interface Approvals {
  readonly policy: Pick<Policy['trust'], 'require' | 'threshold' | 'approved'>;
  readonly verdicts: readonly Verdict[];
  /** Default none. */
  readonly rejectedNames?: readonly RejectedName[];
}

/**
 * A bundle about which a person may have said something. `payload`: absent while nobody read it.
 */
interface Judged {
  readonly bundleId: BundleId;
  readonly payload?: Pick<VerifiedBundle['payload'], 'name' | 'version'>;
}

/** That a person rejected a bundle, and why, where they said so. */
interface Rejected {
  readonly why?: string;
}

/**
 * The rejection of a bundle by a person, by its digest or by its name; undefined when the last word
 * was another one. It wins over the configuration.
 */
export function rejectionOf({ bundleId, payload }: Judged, approvals: Approvals): Rejected | undefined {
  const { verdicts, rejectedNames = [] } = approvals;
  const said = verdicts.find((verdict) => verdict.bundleId === bundleId);
  const byName = rejectedNames.find(({ name, version }) => name === payload?.name && version === payload.version);
  const rejection = said?.verdict === 'rejected' ? said : byName;
  if (rejection === undefined || (said?.verdict === 'approved' && said.at >= rejection.at)) return undefined;
  return rejection.reason === undefined ? {} : { why: rejection.reason };
}

/**
 * Whether a digest is approved, by a person or by the configuration. A rejection by a person wins
 * over the configuration.
 */
export function isApproved(judged: Judged, approvals: Approvals): boolean {
  if (rejectionOf(judged, approvals) !== undefined) return false;
  const { policy, verdicts } = approvals;
  return policy.approved.includes(judged.bundleId) || verdicts.some(({ bundleId }) => bundleId === judged.bundleId);
}

/** Whether a bundle may not be preloaded before its digest is approved. */
export function needsApproval(judged: Judged, approvals: Approvals): boolean {
  return approvals.policy.require !== 'signature' && !isApproved(judged, approvals);
}

/** A key that came into force with a bundle (bundle format, `trust.keys`). */
export interface RotatedKey {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  readonly pem: string;
  /** What its signer calls it, for people only; absent where the bundle does not say. */
  readonly name?: string;
  /** The bundle that added it. */
  readonly bundleId: BundleId;
  /** The role in which it counts; absent for a plain key. */
  readonly role?: string;
}

/**
 * A key that a bundle took out of force (bundle format, `trust.revoked`). Only an administrator
 * brings it back.
 */
export interface RevokedKey {
  readonly keyId: string;
  readonly bundleId: BundleId;
  /** The role in which it counts no more; absent: among the plain keys. */
  readonly role?: string;
  /**
   * When its bundle was adopted, of a revocation that was recorded later, since it was lost; in
   * milliseconds since the epoch.
   */
  readonly remadeAt?: number;
}

/**
 * All that came by rotation, in the order of adoption: a key once for each bundle that names it.
 * Kept when the bundles are gone.
 */
export interface KeyRotation {
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly RevokedKey[];
}

/** Whether a bundle may call a key so: safe on a terminal, and a file name. */
export function isKeyName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

/** What is known of revocations in one round. */
export interface Revocations {
  /**
   * Key ids that never count among the plain keys: of the administrator, now or earlier, and of
   * bundles that rotated plain keys.
   */
  readonly keyIds: readonly string[];
  /**
   * Key ids that never count in a role, by the role's name: of the administrator, and of bundles
   * that rotated keys of that role. Default none.
   */
  readonly inRoles?: ReadonlyMap<string, readonly string[]>;
  /** Revocations can't be read, so that nobody knows which keys are meant. */
  readonly revocationsUnreadable: boolean;
  /** Why they can't, and what to do, without full stop; absent when they can. */
  readonly cause?: string;
}

/** Nothing came by rotation. */
export const NO_ROTATION: KeyRotation = { keys: [], revoked: [] };

/** Whether a payload asks for a change of keys. */
export function hasRotation({ trust }: Pick<Payload, 'trust'>): boolean {
  return (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) > 0;
}
