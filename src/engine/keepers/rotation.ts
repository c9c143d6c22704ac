import { parsePublicKey } from '../../bundle/keys/keys.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import { type KeyRotation, NO_ROTATION } from '../../domain/trust/approval.ts';
import { rotatesKeys, type SignatureRules } from '../../domain/trust/role.ts';
import { defined } from '../../platform/defined.ts';

/** Keys that bundles may bring into one role. This also limits how many a role can revoke. */
const KEYS_OF_ROLE = 256;

/**
 * The keys that `bundle` adds or revokes (bundle format, `trust`), in the role that it names;
 * {@link NO_ROTATION} without enough signers. A role revokes only its own keys.
 * @param before the rotations of other bundles
 */
export function rotationOf(bundle: VerifiedBundle, rules: SignatureRules, before: KeyRotation): KeyRotation {
  if (!rotatesKeys(bundle, rules)) return NO_ROTATION;
  const { bundleId, payload } = bundle;
  const { role, keys = [], names = {}, revoked = [] } = payload.trust ?? {};
  const by = defined({ bundleId, role });
  const brought = keys.map((pem) => {
    // Each key was parsed with the payload.
    const { keyId, otherIds } = parsePublicKey(pem, 'of trust.keys');
    const name = Object.hasOwn(names, keyId) ? names[keyId] : undefined;
    return { otherIds, key: { ...defined({ keyId, pem, name }), ...by } };
  });
  const all = { keys: brought.map(({ key }) => key), revoked: revoked.map((keyId) => ({ keyId, ...by })) };
  const own = role === undefined ? undefined : rules.roles?.find(({ name }) => name === role);
  if (own === undefined) return all;
  const ids = new Set([
    ...(own.keyIds ?? []),
    ...brought.flatMap(({ otherIds, key: { keyId } }) => [keyId, ...otherIds]),
  ]);
  const earlier = new Set(before.keys.flatMap((key) => (key.role === role ? [key.keyId] : [])));
  const isNew = ({ keyId }: { readonly keyId: string }) => !earlier.has(keyId);
  const added = all.keys.filter(isNew).slice(0, Math.max(0, KEYS_OF_ROLE - earlier.size));
  return {
    keys: all.keys.filter((key) => !isNew(key) || added.includes(key)),
    revoked: all.revoked.filter(({ keyId }) => ids.has(keyId)),
  };
}
