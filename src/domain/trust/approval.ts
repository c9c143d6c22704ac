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
 * What is known of approvals: from the configuration and from `stickpin approve` and `stickpin
 * reject`.
 */
export interface Approvals {
  readonly policy: Pick<Policy['trust'], 'require' | 'threshold' | 'approved'>;
  readonly verdicts: readonly Verdict[];
}

/** Why a digest was rejected here; undefined when it was not, or nobody said why. */
export function rejectionReason(bundleId: BundleId, { verdicts }: Approvals): string | undefined {
  return verdicts.find((said) => said.bundleId === bundleId && said.verdict === 'rejected')?.reason;
}

/** Whether `stickpin reject` was the last word about a digest. It wins over the configuration. */
export function isRejectedHere(bundleId: BundleId, { verdicts }: Approvals): boolean {
  return verdicts.some((said) => said.bundleId === bundleId && said.verdict === 'rejected');
}

/**
 * Whether a digest is approved, by a person or by the configuration. A rejection by a person wins
 * over the configuration.
 */
export function isApproved(bundleId: BundleId, approvals: Approvals): boolean {
  if (isRejectedHere(bundleId, approvals)) return false;
  const { policy, verdicts } = approvals;
  return policy.approved.includes(bundleId) || verdicts.some((said) => said.bundleId === bundleId);
}

/** Whether a bundle may not be preloaded before its digest is approved. */
export function needsApproval(bundleId: BundleId, approvals: Approvals): boolean {
  return approvals.policy.require !== 'signature' && !isApproved(bundleId, approvals);
}
