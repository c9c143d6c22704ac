import type { SignerRole, VerifiedBundle } from '../model/bundle.ts';
import type { StoredBundle } from '../state/state.ts';
import { plainSigners } from '../trust/authority.ts';

/** Who signed a bundle: names and key ids, each sorted. */
export type Signers = Required<Pick<VerifiedBundle, 'signedBy' | 'signerKeyIds'>> & Pick<VerifiedBundle, 'signerRoles'>;

/**
 * Who signed an adopted bundle, when plugged media (`carriers`) show more of that than is stored;
 * else undefined. Signers add up: a key that is not there any more, and is not revoked, still has
 * signed. One that counted in a role and is a plain key now counts for everything from now on. One
 * that counts in another role now is taken into that role when the bundle has lost its trust, so
 * that a bundle that is trusted by the old role never loses its trust by that.
 *
 * @param isTrusted whether it is trusted by what is stored
 */
export function newSignersOf(
  { signedBy, signerKeyIds, signerRoles = [] }: StoredBundle,
  carriers: readonly { readonly found: { readonly bundle: VerifiedBundle } }[],
  isTrusted: boolean,
): Signers | undefined {
  const seen = carriers.map(({ found }) => found.bundle);
  const known = new Set(signerKeyIds ?? []);
  const ids = new Set([...known, ...seen.flatMap((bundle) => bundle.signerKeyIds ?? [])]);
  const nowPlain = new Set(seen.flatMap(plainSigners));
  const shown = seen.flatMap((bundle) => bundle.signerRoles ?? []);
  const moved = isTrusted ? [] : movedAmong(shown, signerRoles).filter(({ keyId }) => !nowPlain.has(keyId));
  const left = new Set([...nowPlain, ...moved.map(({ keyId }) => keyId)]);
  const kept = signerRoles.filter(({ keyId }) => !left.has(keyId));
  const isSame = ids.size === known.size && kept.length === signerRoles.length && moved.length === 0;
  if (isSame) return undefined;
  const fresh = shown.filter(({ keyId }) => !known.has(keyId));
  const names = new Set([...withoutLeft(signedBy, signerRoles, kept), ...seen.flatMap((bundle) => bundle.signedBy)]);
  const roles = new Map([...fresh, ...moved, ...kept].map((one) => [one.keyId, one] as const));
  return {
    signedBy: [...names].sort(),
    signerKeyIds: [...ids].sort(),
    ...(roles.size > 0 && { signerRoles: [...roles.values()].sort((a, b) => (a.keyId < b.keyId ? -1 : 1)) }),
  };
}

/**
 * Keys that are shown in another role only than the stored one. A medium that was read before the
 * roles changed may still show the stored one, which then stays until that medium is read again.
 */
function movedAmong(shown: readonly SignerRole[], stored: readonly SignerRole[]): readonly SignerRole[] {
  const isAmong = (roles: readonly SignerRole[], { keyId, role }: SignerRole) =>
    roles.some((one) => one.keyId === keyId && one.role === role);
  const inPlace = stored.filter((one) => isAmong(shown, one)).map(({ keyId }) => keyId);
  return shown.filter(({ keyId }) => stored.some((one) => one.keyId === keyId) && !inPlace.includes(keyId));
}

/** Names of signers, without those of roles that none of them counts in any more. */
function withoutLeft(
  names: readonly string[],
  before: readonly SignerRole[],
  kept: readonly SignerRole[],
): readonly string[] {
  const gone = before.map(({ role }) => role).filter((name) => kept.every(({ role }) => role !== name));
  return names.filter((name) => gone.every((role) => !name.startsWith(`${role}/`)));
}
