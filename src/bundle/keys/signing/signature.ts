import { sign, verify } from 'node:crypto';
import type { PrivateKey, PublicKey } from '../keys.ts';

/** A signature of bundle format 1 over `covered`: Ed25519, or ECDSA P-256 with SHA-256 in DER. */
export function makeSignature({ algorithm, key }: PrivateKey, covered: Uint8Array): Buffer {
  return algorithm === 'ed25519' ? sign(null, covered, key) : sign('sha256', covered, { key, dsaEncoding: 'der' });
}

/** Whether `signature` is `key`'s over `covered`. A malformed signature does not count. */
export function isSignatureBy(
  { algorithm, key }: Pick<PublicKey, 'algorithm' | 'key'>,
  signature: Uint8Array,
  covered: Uint8Array,
): boolean {
  try {
    return algorithm === 'ed25519'
      ? verify(null, covered, key, signature)
      : verify('sha256', covered, { key, dsaEncoding: 'der' }, signature);
  } catch {
    return false;
  }
}
