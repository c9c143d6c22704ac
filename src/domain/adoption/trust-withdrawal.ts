import { bundleTitle } from '../model/bundle.ts';
import type { Reason } from '../model/medium.ts';
import type { PhaseOf } from '../model/phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { type Approvals, isApproved, isRejectedHere, needsApproval } from '../trust/approval.ts';
import type { Revocations } from '../trust/key-rotation.ts';

/**
 * Why an adopted bundle is not trusted any more, and the phase that it has if it was never ready.
 */
export type Withdrawal = PhaseOf & { readonly reason: Reason };

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
  const title = bundleTitle(bundle.payload);
  if (isRejectedHere(bundle.bundleId, approvals)) {
    const message = `${title} was rejected on this node after it was taken up: it is not loaded any further and not activated, what is pinned stays; 'stickpin approve ${bundle.bundleId}' takes that back`;
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/rejected', message } };
  }
  if (bundle.readyAt === undefined && needsApproval(bundle.bundleId, approvals)) {
    const message = `${title} waits for approval: compare its digest with what its maker says, then 'stickpin approve ${bundle.bundleId}'`;
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/approval', message } };
  }
  if (approvals.policy.require === 'approval' && isApproved(bundle.bundleId, approvals)) return undefined;
  const reason = lostSignature(bundle, title, revocations, approvals.policy.threshold);
  return reason === undefined ? undefined : { phase: 'rejected', reason };
}

/**
 * Whether the signers that are left still meet the threshold. Signers whose ids were never recorded
 * can't be matched with revocations.
 */
function lostSignature(
  { signedBy, signerKeyIds }: StoredBundle,
  title: string,
  { keyIds, revocationsUnreadable, cause }: Revocations,
  threshold: number,
): Reason | undefined {
  if (revocationsUnreadable) {
    return {
      code: 'trust/blind',
      message: `${title} is not trusted while revocations can't be read, since its key may be revoked: ${cause ?? 'see stickpin doctor'}`,
    };
  }
  const revoked = (signerKeyIds ?? []).filter((keyId) => keyIds.includes(keyId));
  const left = (signerKeyIds ?? signedBy).length - revoked.length;
  if (left >= threshold) return undefined;
  const names = signedBy.join(', ') || 'nobody trusted';
  const next = 'what is pinned stays. Bring it signed again by a key that is still trusted, or a newer release';
  if (revoked.length === 0) {
    const message = `${title} was signed by ${names}, and ${threshold} distinct trusted keys are required now; ${next}`;
    return { code: 'trust/threshold', message };
  }
  const ids = revoked.map((keyId) => `${keyId.slice(0, 12)}…`).join(', ');
  const message = `${title} is not trusted any more: it was signed by ${names}, and key ${ids} is revoked. It is not loaded any further and not activated; ${next}`;
  return { code: 'trust/key-revoked', message };
}
