import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { type AdoptionReason, labelOf, type TrustReason } from '../model/reason.ts';
import { type Approvals, needsApproval, rejectionOf } from '../trust/approval.ts';
import { type AdoptionContext, refuseAdoption } from './adoption.ts';

/** What becomes of a bundle that this node does not know yet. */
export type Admission =
  | { readonly kind: 'adopt' }
  | { readonly kind: 'refuse'; readonly reason: AdoptionReason | TrustReason }
  /**
   * Nothing speaks against it but that nobody approved it. It is not adopted: no floor, no key and
   * no advisory of it counts.
   */
  | { readonly kind: 'await-approval'; readonly reason: TrustReason };

/**
 * Judges a verified bundle. What would be refused anyway is refused first, so that nobody is asked
 * to approve it. `medium`: the label of the medium on which it lies.
 */
export function admit(
  found: VerifiedBundle,
  context: AdoptionContext,
  approvals: Approvals,
  medium: string,
): Admission {
  const refusal = refuseAdoption(found, context);
  if (refusal !== undefined) return { kind: 'refuse', reason: refusal };
  const { bundleId, signedBy } = found;
  const bundle = labelOf(found.payload);
  const rejected = rejectionOf(found, approvals);
  if (rejected !== undefined) {
    return {
      kind: 'refuse',
      reason: { code: 'trust/rejected', data: { kind: 'found', bundleId, bundle, ...rejected } },
    };
  }
  if (!needsApproval(found, approvals)) return { kind: 'adopt' };
  const data = { kind: 'found', bundleId, bundle, medium, signedBy } as const;
  return { kind: 'await-approval', reason: { code: 'trust/approval', data } };
}

/**
 * Judges a bundle of which only the digest is known, since no trusted key signed it (`trust.require
 * = "approval"`). `medium`: the label of the medium on which it lies.
 */
export function admitUnapproved(
  bundleId: BundleId,
  approvals: Approvals,
  medium: string,
): Exclude<Admission, { kind: 'adopt' }> {
  const rejected = rejectionOf({ bundleId }, approvals);
  if (rejected !== undefined) {
    return { kind: 'refuse', reason: { code: 'trust/rejected', data: { kind: 'found', bundleId, ...rejected } } };
  }
  return {
    kind: 'await-approval',
    reason: { code: 'trust/approval', data: { kind: 'found-unsigned', bundleId, medium } },
  };
}
