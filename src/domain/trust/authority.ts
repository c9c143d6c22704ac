import { assertNever } from '../../platform/app-error.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import { hasRotation, type Revocations } from './key-rotation.ts';
import { outsideScope, type Role } from './role.ts';

/** Whose signatures a bundle is trusted by: those of the plain keys, or those of one role. */
export type Authority = { readonly kind: 'plain' } | { readonly kind: 'role'; readonly role: Role };

/** What signatures count for now. */
export interface SignatureRules {
  /** How many distinct plain keys must have signed (`trust.threshold`), at least 1. */
  readonly threshold: number;
  /** Roles in force, each name once. Default none. */
  readonly roles?: readonly Role[];
  readonly revocations: Revocations;
}

/** As much of a bundle as its authorities depend on. */
export type SignedBundle = Pick<VerifiedBundle, 'payload' | 'contents' | 'signedBy' | 'signerKeyIds' | 'signerRoles'>;

/**
 * By whose signatures a bundle is trusted: the plain keys when enough of them signed it, and each
 * role of which enough keys signed it and that covers its stream and all of its repositories.
 * Signatures of different roles don't add up, and neither do those of a role and of plain keys.
 * Revoked keys don't count; while revocations can't be read no key does.
 */
export function authoritiesOf(bundle: SignedBundle, rules: SignatureRules): readonly Authority[] {
  const { revocations, roles = [], threshold } = rules;
  if (revocations.revocationsUnreadable) return [];
  const plain = plainSigners(bundle).filter((keyId) => !revocations.keyIds.includes(keyId));
  return [
    ...(plain.length >= threshold ? [{ kind: 'plain' } as const] : []),
    ...roles
      .filter((role) => signersLeftIn(role, bundle, revocations).length >= role.threshold)
      .filter((role) => outsideScope(role, bundle) === undefined)
      .map((role) => ({ kind: 'role', role }) as const),
  ];
}

/**
 * Who signed with a plain key, by key id. Of a bundle that was adopted before ids were recorded
 * only names are known, which can't be matched with revocations.
 */
export function plainSigners({ signedBy, signerKeyIds, signerRoles = [] }: SignedBundle): readonly string[] {
  return (signerKeyIds ?? signedBy).filter((signer) => signerRoles.every(({ keyId }) => keyId !== signer));
}

/** Ids of the keys of a role that signed and that are not revoked there. */
export function signersLeftIn(
  { name }: Pick<Role, 'name'>,
  { signerRoles = [] }: Pick<SignedBundle, 'signerRoles'>,
  { inRoles }: Revocations,
): readonly string[] {
  const revoked = inRoles?.get(name) ?? [];
  return signerRoles.flatMap(({ keyId, role }) => (role === name && !revoked.includes(keyId) ? [keyId] : []));
}

/**
 * Bundle format, `trust`: whether a payload may rotate the keys that it names. Without `trust.role`
 * it rotates plain keys, and has to be trusted by plain keys; with it, it rotates keys of that role
 * only, has to be trusted by that role, and the role must allow it (`may_rotate`).
 */
export function allowsRotation({ payload }: Pick<SignedBundle, 'payload'>, by: readonly Authority[]): boolean {
  const named = payload.trust?.role;
  return by.some((authority) => {
    switch (authority.kind) {
      case 'plain':
        return named === undefined;
      case 'role':
        return authority.role.name === named && authority.role.mayRotate;
      default:
        return assertNever(authority);
    }
  });
}

/**
 * Bundle format, `trust`: "takes effect when the envelope meets the present threshold", of the
 * plain keys or of the role that the payload names. A bundle that is trusted because its digest was
 * approved changes no key.
 */
export function rotatesKeys(bundle: SignedBundle, rules: SignatureRules): boolean {
  return hasRotation(bundle.payload) && allowsRotation(bundle, authoritiesOf(bundle, rules));
}
