import type { PhaseOf } from '../model/phase.ts';
import { labelOf, type TrustReason } from '../model/reason.ts';
import type { StoredBundle } from '../state/state.ts';
import { type Approvals, isApproved, isRejectedHere, needsApproval } from '../trust/approval.ts';
import type { Revocations } from '../trust/key-rotation.ts';

/**
 * Why an adopted bundle is not trusted any more, and the phase that it has if it was never ready.
 */
export type Withdrawal = PhaseOf & { readonly reason: TrustReason };

/**
 * Whether the trust in an adopted bundle still stands. Revoked keys never count, even for bundles
 * adopted before; a key that was merely taken out of keys.d still does: an adopted bundle stays a
 * source of blobs unless its key is revoked (docs/decisions/trust.md). A bundle whose trust is
 * withdrawn is not pulled, not served and not activated; its pins stay, since something may run
 * from them.
 *
 * @returns undefined while it stands.
 */
export function withdrawalOf(
  bundle: StoredBundle,
  revocations: Revocations,
  approvals: Approvals,
): Withdrawal | undefined {
  const { bundleId, readyAt } = bundle;
  const adopted = { kind: 'adopted', bundleId, bundle: labelOf(bundle.payload) } as const;
  if (isRejectedHere(bundleId, approvals)) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/rejected', data: adopted } };
  }
  if (readyAt === undefined && needsApproval(bundleId, approvals)) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/approval', data: adopted } };
  }
  if (approvals.policy.require === 'approval' && isApproved(bundleId, approvals)) return undefined;
  const reason = lostSignature(bundle, revocations, approvals.policy.threshold);
  return reason === undefined ? undefined : { phase: 'rejected', reason };
}

/**
 * Whether the signers that are left still meet the threshold. Signers whose ids were never recorded
 * can't be matched with revocations.
 */
function lostSignature(
  { payload, signedBy, signerKeyIds }: StoredBundle,
  { keyIds, revocationsUnreadable, cause }: Revocations,
  threshold: number,
): TrustReason | undefined {
  const bundle = labelOf(payload);
  if (revocationsUnreadable) {
    return { code: 'trust/blind', data: { bundle, ...(cause !== undefined && { cause }) } };
  }
  const revoked = (signerKeyIds ?? []).filter((keyId) => keyIds.includes(keyId));
  const left = (signerKeyIds ?? signedBy).length - revoked.length;
  if (left >= threshold) return undefined;
  if (revoked.length === 0) return { code: 'trust/threshold', data: { bundle, signedBy, threshold } };
  return { code: 'trust/key-revoked', data: { bundle, signedBy, keyIds: revoked } };
}
