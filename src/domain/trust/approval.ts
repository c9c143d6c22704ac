import type { VerifiedBundle } from '../model/bundle.ts';
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
export interface Judged {
  readonly bundleId: BundleId;
  readonly payload?: Pick<VerifiedBundle['payload'], 'name' | 'version'>;
}

/** That a person rejected a bundle, and why, where they said so. */
export interface Rejected {
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
