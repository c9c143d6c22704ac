import type { PhaseOf } from '../model/phase.ts';
import { labelOf, type TrustReason } from '../model/reason.ts';
import type { StoredBundle } from '../state/state.ts';
import { type Approvals, isApproved, needsApproval, type Revocations, rejectionOf } from '../trust/approval.ts';
import { authoritiesOf, outsideScope, plainSigners, type Role, signersLeftIn } from '../trust/role.ts';

export type Withdrawal = PhaseOf & { readonly reason: TrustReason };

export interface SignersInForce {
  readonly revocations: Revocations;
  readonly roles?: readonly Role[];
}

/**
 * Why an adopted bundle is no longer trusted (docs/decisions/trust.md,
 * docs/decisions/key-roles.md). Revoked keys never count; keys that were removed from keys.d still
 * count. Keys of a role count while the role is in force and covers the bundle.
 */
export function withdrawalOf(
  bundle: StoredBundle,
  inForce: SignersInForce,
  approvals: Approvals,
): Withdrawal | undefined {
  const { bundleId, readyAt } = bundle;
  const adopted = { kind: 'adopted', bundleId, bundle: labelOf(bundle.payload) } as const;
  const rejected = rejectionOf(bundle, approvals);
  if (rejected !== undefined) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/rejected', data: { ...adopted, ...rejected } } };
  }
  if (readyAt === undefined && needsApproval(bundle, approvals)) {
    return { phase: 'held', hold: 'approval', reason: { code: 'trust/approval', data: adopted } };
  }
  if (approvals.policy.require === 'approval' && isApproved(bundle, approvals)) return undefined;
  const reason = lostSignature(bundle, inForce, approvals.policy.threshold);
  return reason === undefined ? undefined : { phase: 'rejected', reason };
}

/** Whether only a person's approval is missing: the signatures of the bundle still hold. */
export function awaitsPerson(bundle: StoredBundle, inForce: SignersInForce, { policy }: Approvals): boolean {
  const approved = { bundleId: bundle.bundleId, verdict: 'approved', at: 0 } as const;
  return withdrawalOf(bundle, inForce, { policy, verdicts: [approved] }) === undefined;
}

/** Signers without recorded ids can't be matched with revocations. */
function lostSignature(
  stored: StoredBundle,
  { revocations, roles = [] }: SignersInForce,
  threshold: number,
): TrustReason | undefined {
  const { signedBy, signerKeyIds = [], signerRoles = [] } = stored;
  const bundle = labelOf(stored.payload);
  if (revocations.revocationsUnreadable) {
    const { cause } = revocations;
    return { code: 'trust/blind', data: { bundle, ...(cause !== undefined && { cause }) } };
  }
  if (authoritiesOf(stored, { threshold, roles, revocations }).length > 0) return undefined;
  const inRole = new Set(
    signerRoles.filter(({ keyId, role }) => revocations.inRoles?.get(role)?.includes(keyId)).map(({ keyId }) => keyId),
  );
  const plain = plainSigners(stored);
  const revoked = signerKeyIds.filter(
    (keyId) => inRole.has(keyId) || (plain.includes(keyId) && revocations.keyIds.includes(keyId)),
  );
  if (revoked.length > 0) return { code: 'trust/key-revoked', data: { bundle, signedBy, keyIds: revoked } };
  return lostRole(stored, roles, revocations) ?? { code: 'trust/threshold', data: { bundle, signedBy, threshold } };
}

function lostRole(stored: StoredBundle, roles: readonly Role[], revocations: Revocations): TrustReason | undefined {
  const [first] = stored.signerRoles ?? [];
  if (first === undefined) return undefined;
  const about = { bundle: labelOf(stored.payload), signedBy: stored.signedBy, role: first.role };
  const role = roles.find(({ name }) => name === first.role);
  if (role === undefined) return { code: 'trust/role', data: { ...about, why: { kind: 'no-role' } } };
  const outside = outsideScope(role, stored);
  if (outside !== undefined) return { code: 'trust/role', data: { ...about, why: outside } };
  const left = signersLeftIn(role, stored, revocations).length;
  return { code: 'trust/role', data: { ...about, why: { kind: 'threshold', threshold: role.threshold, left } } };
}
