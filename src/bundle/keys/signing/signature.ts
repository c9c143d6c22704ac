import { sign, verify } from 'node:crypto';
import type { PrivateKey, PublicKey } from '../keys.ts';

/** A signature of bundle format 1 over `covered`: Ed25519, or ECDSA P-256 with SHA-256 in DER. */
export function makeSignature({ algorithm, key }: PrivateKey, covered: Uint8Array): Buffer {
  return algorithm === 'ed25519' ? sign(null, covered, key) : sign('sha256', covered, { key, dsaEncoding: 'der' });
}

/**
 * Whether `signature` is `key`'s over `covered`. A malformed signature does not count. It is
 * checked in a thread of the pool: a payload of the largest size takes a millisecond or more.
 */
export function isSignatureBy(
  { algorithm, key }: Pick<PublicKey, 'algorithm' | 'key'>,
  signature: Uint8Array,
  covered: Uint8Array,
): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (error: Error | null, isValid: boolean): void => resolve(error === null && isValid);
    try {
      if (algorithm === 'ed25519') verify(null, covered, key, signature, done);
      else verify('sha256', covered, { key, dsaEncoding: 'der' }, signature, done);
    } catch {
      resolve(false);
    }
  });
}
