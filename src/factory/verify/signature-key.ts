import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { bundleError } from '../../bundle/bundle-error.ts';
import { holdsPrivateKey } from '../../bundle/keys/keys.ts';
import { hexOf } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import type { ImageSignature } from './image-signatures.ts';

/** A public key of sigstore, which makes other signatures than the keys of bundles. */
export interface SignatureKey {
  readonly key: KeyObject;
  /** The name has the SHA-256 of its SubjectPublicKeyInfo. */
  readonly name: string;
}

/** SPKI in PEM, as `cosign.pub`. @throws AppError `bundle/option` that begins with `place` */
export function readSignatureKey(bytes: Buffer, name: string, place: string): SignatureKey {
  const refuse = (why: string, cause?: unknown) => bundleError('bundle/option', `${place}: ${why}`, { cause });
  if (holdsPrivateKey(bytes)) throw refuse('it holds a private key: remove it, and name the public key');
  if (bytes.toString('latin1').split('-----BEGIN ').length !== 2) throw refuse('it must have one public key in PEM');
  let key: KeyObject;
  try {
    key = createPublicKey({ key: bytes, format: 'pem', type: 'spki' });
  } catch (cause) {
    throw refuse(`its PEM can't be read: ${reasonOf(cause)}`, cause);
  }
  if (hashesOf(key).length === 0) throw refuse('it must be an ECDSA P-256 or P-384, RSA (2048 bits) or Ed25519 key');
  const id = hexOf(digestOf(key.export({ type: 'spki', format: 'der' })));
  return { key, name: `key ${id} (${name})` };
}

export function isSignedBy({ key }: SignatureKey, { signed, signature }: ImageSignature): boolean {
  return hashesOf(key).some((hash) => verify(hash, signed, key, signature));
}

/** For P-384, cosign 2 uses SHA-256, and cosign 3 SHA-384. */
function hashesOf(key: KeyObject): readonly (string | null)[] {
  const { namedCurve = '', modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'ed25519') return [null];
  if (key.asymmetricKeyType === 'rsa') return modulusLength >= 2048 ? ['sha256'] : [];
  if (namedCurve === 'secp384r1') return ['sha256', 'sha384'];
  return namedCurve === 'prime256v1' ? ['sha256'] : [];
}
