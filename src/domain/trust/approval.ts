import type { BundleId } from '../model/digest.ts';

/**
 * What lets an unknown bundle in (`trust.require`): signatures of enough trusted keys, the approval
 * of its digest, or both.
 */
export type TrustRequirement = 'signature' | 'approval' | 'both';

/** The settings that trust depends on. */
export interface TrustPolicy {
  readonly require: TrustRequirement;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /** Digests that the configuration approves (`[trust] approved`). */
  readonly approved: readonly BundleId[];
}

/**
 * What a person said about a bundle digest, ahead of its stick or afterwards. The latest word
 * counts.
 */
export interface Verdict {
  readonly bundleId: BundleId;
  readonly verdict: 'approved' | 'rejected';
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/**
 * What is known of approvals: from the configuration and from `stickpin approve` and `stickpin
 * reject`.
 */
export interface Approvals {
  readonly policy: TrustPolicy;
  readonly verdicts: readonly Verdict[];
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
