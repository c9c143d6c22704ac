import { bundleName, bundleTitle, type VerifiedBundle } from '../model/bundle.ts';
import { type BundleId, shortDigest } from '../model/digest.ts';
import type { Reason } from '../model/medium.ts';
import { type Approvals, isRejectedHere, needsApproval } from '../trust/approval.ts';
import { type AdoptionContext, refuseAdoption } from './adoption.ts';

/** What becomes of a bundle that this node does not know yet. */
export type Admission =
  | { readonly kind: 'adopt' }
  | { readonly kind: 'refuse'; readonly reason: Reason }
  /**
   * Nothing speaks against it but that nobody approved it. It is not adopted: no floor, no key and
   * no advisory of it counts.
   */
  | { readonly kind: 'await-approval'; readonly reason: Reason };

/**
 * Judges a verified bundle. What would be refused anyway is refused first, so that nobody is asked
 * to approve it.
 */
export function admit(found: VerifiedBundle, context: AdoptionContext, approvals: Approvals, label: string): Admission {
  const refusal = refuseAdoption(found, context);
  if (refusal !== undefined) return { kind: 'refuse', reason: refusal };
  if (isRejectedHere(found.bundleId, approvals)) {
    return { kind: 'refuse', reason: rejectedReason(bundleName(found.payload), found.bundleId) };
  }
  if (!needsApproval(found.bundleId, approvals)) return { kind: 'adopt' };
  const what = `${bundleTitle(found.payload)} on ${label}, signed by ${found.signedBy.join(', ') || 'nobody trusted'}`;
  return { kind: 'await-approval', reason: awaitReason(what, found.bundleId) };
}

/**
 * Judges a bundle of which only the digest is known, since no trusted key signed it (`trust.require
 * = "approval"`).
 */
export function admitUnapproved(
  bundleId: BundleId,
  approvals: Approvals,
  label: string,
): Exclude<Admission, { kind: 'adopt' }> {
  if (isRejectedHere(bundleId, approvals)) return { kind: 'refuse', reason: rejectedReason('it', bundleId) };
  return {
    kind: 'await-approval',
    reason: awaitReason(`A bundle on ${label} that no trusted key signed`, bundleId),
  };
}

function awaitReason(what: string, bundleId: BundleId): Reason {
  return {
    code: 'trust/approval',
    message: `${what}, waits for approval: compare its digest with what its maker says, then 'stickpin approve ${bundleId}'`,
  };
}

function rejectedReason(what: string, bundleId: BundleId): Reason {
  return {
    code: 'trust/rejected',
    message: `${what} (${shortDigest(bundleId)}) was rejected on this node; 'stickpin approve ${bundleId}' takes that back`,
  };
}
