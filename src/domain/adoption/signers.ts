import type { VerifiedBundle } from '../model/bundle.ts';
import type { StoredBundle } from '../state/state.ts';

/** Who signed a bundle: names and key ids, each sorted. */
export type Signers = Required<Pick<VerifiedBundle, 'signedBy' | 'signerKeyIds'>>;

/**
 * Who signed an adopted bundle, when plugged media (`carriers`) show more of that than is stored;
 * else undefined. Signers add up: a key that is not there any more, and is not revoked, still has
 * signed.
 */
export function newSignersOf(
  { signedBy, signerKeyIds }: StoredBundle,
  carriers: readonly { readonly found: { readonly bundle: VerifiedBundle } }[],
): Signers | undefined {
  const seen = carriers.map(({ found }) => found.bundle);
  const ids = new Set([...(signerKeyIds ?? []), ...seen.flatMap((bundle) => bundle.signerKeyIds ?? [])]);
  if (ids.size === (signerKeyIds ?? []).length) return undefined;
  const names = new Set([...signedBy, ...seen.flatMap((bundle) => bundle.signedBy)]);
  return { signedBy: [...names].sort(), signerKeyIds: [...ids].sort() };
}
