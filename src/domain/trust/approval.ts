import type { Payload, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { Policy } from '../settings/settings.ts';

/** The condition for an unknown bundle (`trust.require`). */
export type TrustRequirement = Policy['trust']['require'];

/** A person's verdict on a bundle digest. The latest one counts. */
export interface Verdict {
  readonly bundleId: BundleId;
  readonly verdict: 'approved' | 'rejected';
  /** The person's own words. */
  readonly reason?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Counts for every bundle of that name whose digest was not approved later. */
export interface RejectedName {
  readonly name: string;
  readonly version: string;
  readonly reason?: string;
  /** Milliseconds since the epoch. Later than every verdict before it. */
  readonly at: number;
}

/** They come from the configuration and from `stickpin approve` and `stickpin reject`. */
export interface Approvals {
  readonly policy: Pick<Policy['trust'], 'require' | 'threshold' | 'approved'>;
  readonly verdicts: readonly Verdict[];
  readonly rejectedNames?: readonly RejectedName[];
}

/** `payload` is absent while it was not read. */
interface Judged {
  readonly bundleId: BundleId;
  readonly payload?: Pick<VerifiedBundle['payload'], 'name' | 'version'>;
}

interface Rejected {
  readonly why?: string;
}

/** Returns a person's latest verdict, if it is a rejection. It wins over the configuration. */
export function rejectionOf({ bundleId, payload }: Judged, approvals: Approvals): Rejected | undefined {
  const { verdicts, rejectedNames = [] } = approvals;
  const verdict = verdicts.find((verdict) => verdict.bundleId === bundleId);
  const byName = rejectedNames.find(({ name, version }) => name === payload?.name && version === payload.version);
  const rejection = verdict?.verdict === 'rejected' ? verdict : byName;
  if (rejection === undefined || (verdict?.verdict === 'approved' && verdict.at >= rejection.at)) return undefined;
  return rejection.reason === undefined ? {} : { why: rejection.reason };
}

export function isApproved(judged: Judged, approvals: Approvals): boolean {
  if (rejectionOf(judged, approvals) !== undefined) return false;
  const { policy, verdicts } = approvals;
  return policy.approved.includes(judged.bundleId) || verdicts.some(({ bundleId }) => bundleId === judged.bundleId);
}

export function needsApproval(judged: Judged, approvals: Approvals): boolean {
  return approvals.policy.require !== 'signature' && !isApproved(judged, approvals);
}

/** A key that came into force with a bundle (bundle format, `trust.keys`). */
export interface RotatedKey {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  readonly pem: string;
  readonly name?: string;
  readonly bundleId: BundleId;
  /** Absent for a plain key. */
  readonly role?: string;
}

/** Bundle format, `trust.revoked`. Only an administrator restores the key. */
export interface RevokedKey {
  readonly keyId: string;
  readonly bundleId: BundleId;
  /** The role in which the key no longer counts. Absent: among the plain keys. */
  readonly role?: string;
}

/** The order is that of adoption, and a bundle has a key once. It outlives the bundles. */
export interface KeyRotation {
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly RevokedKey[];
}

/** A valid name is safe on a terminal and as a file name. */
export function isKeyName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

export interface Revocations {
  /** These keys never count among the plain keys. */
  readonly keyIds: readonly string[];
  /** These keys never count in a role, by the role's name. */
  readonly inRoles?: ReadonlyMap<string, readonly string[]>;
  readonly revocationsUnreadable: boolean;
  /** Cause and remedy, without full stop. */
  readonly cause?: string;
}

export const NO_ROTATION: KeyRotation = { keys: [], revoked: [] };

export function hasRotation({ trust }: Pick<Payload, 'trust'>): boolean {
  return (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) > 0;
}
