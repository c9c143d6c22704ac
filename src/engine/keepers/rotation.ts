import { parsePublicKey } from '../../bundle/keys/keys.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import { rotatesKeys, type SignatureRules } from '../../domain/trust/authority.ts';
import { type KeyRotation, NO_ROTATION } from '../../domain/trust/key-rotation.ts';

/**
 * The keys that the adoption of `bundle` adds or revokes (bundle format, `trust`), in the role that
 * the payload names; none when too few keys signed it that may do so.
 */
export function rotationOf(bundle: VerifiedBundle, rules: SignatureRules): KeyRotation {
  if (!rotatesKeys(bundle, rules)) return NO_ROTATION;
  const { bundleId, payload } = bundle;
  const { role, keys = [], names = {}, revoked = [] } = payload.trust ?? {};
  const by = { bundleId, ...(role !== undefined && { role }) };
  return {
    keys: keys.map((pem) => {
      // That each key can be parsed was checked with the payload.
      const { keyId } = parsePublicKey(pem, 'of trust.keys');
      const name = Object.hasOwn(names, keyId) ? names[keyId] : undefined;
      return { keyId, pem, ...(name !== undefined && { name }), ...by };
    }),
    revoked: revoked.map((keyId) => ({ keyId, ...by })),
  };
}
