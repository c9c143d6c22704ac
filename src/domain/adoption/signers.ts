import type { VerifiedBundle } from '../model/bundle.ts';
import type { StoredBundle } from '../state/state.ts';
import { plainSigners } from '../trust/authority.ts';

/** Who signed a bundle: names and key ids, each sorted. */
export type Signers = Required<Pick<VerifiedBundle, 'signedBy' | 'signerKeyIds'>> & Pick<VerifiedBundle, 'signerRoles'>;

/**
 * Who signed an adopted bundle, when plugged media (`carriers`) show more of that than is stored;
 * else undefined. Signers add up: a key that is not there any more, and is not revoked, still has
 * signed. One that counted in a role and is a plain key now counts for everything from now on.
 */
export function newSignersOf(
  { signedBy, signerKeyIds, signerRoles = [] }: StoredBundle,
  carriers: readonly { readonly found: { readonly bundle: VerifiedBundle } }[],
): Signers | undefined {
  const seen = carriers.map(({ found }) => found.bundle);
  const known = new Set(signerKeyIds ?? []);
  const ids = new Set([...known, ...seen.flatMap((bundle) => bundle.signerKeyIds ?? [])]);
  const nowPlain = new Set(seen.flatMap(plainSigners));
  const fresh = seen.flatMap((bundle) => bundle.signerRoles ?? []).filter(({ keyId }) => !known.has(keyId));
  const kept = signerRoles.filter(({ keyId }) => !nowPlain.has(keyId));
  if (ids.size === known.size && kept.length === signerRoles.length) return undefined;
  const names = new Set([...signedBy, ...seen.flatMap((bundle) => bundle.signedBy)]);
  const roles = new Map([...fresh, ...kept].map((one) => [one.keyId, one] as const));
  return {
    signedBy: [...names].sort(),
    signerKeyIds: [...ids].sort(),
    ...(roles.size > 0 && { signerRoles: [...roles.values()].sort((a, b) => (a.keyId < b.keyId ? -1 : 1)) }),
  };
}
