import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { reasonOf } from '../platform/app-error.ts';
import { bundleError } from './bundle-error.ts';

/** Signature algorithms of bundle format 1; `ecdsa-p256` is with SHA-256 and DER signatures. */
export type SignatureAlgorithm = 'ed25519' | 'ecdsa-p256';

/** A public key. `keyId` is the lower-case hex SHA-256 of its DER SubjectPublicKeyInfo. */
export interface PublicKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/** A private key with the id of its public half. */
export interface PrivateKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/**
 * Reads a public key from PEM (`-----BEGIN PUBLIC KEY-----`, SPKI, RFC 5480 and RFC 8410).
 *
 * @param name the file's name, for errors.
 * @throws AppError `bundle/key-file` (`reject`)
 */
export function parsePublicKey(pem: string, name: string): PublicKey {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw badKey(name, 'it holds a private key: take it away from here and use the .pub file that was made with it');
  }
  // createPublicKey() would take certificates and PKCS#1 as well; the format knows SPKI only.
  if (!pem.includes('-----BEGIN PUBLIC KEY-----'))
    throw badKey(name, 'it is not a public key in PEM (-----BEGIN PUBLIC KEY-----)');
  const key = attempt(name, () => createPublicKey({ key: pem, format: 'pem', type: 'spki' }));
  return { keyId: keyIdOf(key), algorithm: algorithmOf(key, name), key };
}

/**
 * The key ids that a `*.revoked` file means: that of the public key in PEM that it holds, or those that it names, one a line, with `#` comments.
 * Upper-case digits are taken as well.
 *
 * @throws AppError `bundle/key-file` (`reject`) when it is neither, or names none.
 */
export function parseRevocations(text: string, name: string): string[] {
  if (text.includes('-----BEGIN ')) return [parsePublicKey(text, name).keyId];
  const lines = text.split(/\r?\n/).map((line) => line.replace(/#.*/, '').trim().toLowerCase());
  const keyIds = lines.filter((line) => line !== '');
  const foreign = keyIds.findIndex((line) => !KEY_ID.test(line));
  if (keyIds.length > 0 && foreign === -1) return keyIds;
  const why = keyIds.length === 0 ? 'names no key' : `${JSON.stringify(keyIds[foreign]?.slice(0, 80))} is no key id`;
  throw badKey(name, `${why}: it must hold a public key in PEM, or key ids (64 hex digits), one a line`);
}

/**
 * Reads an unencrypted private key from PEM (PKCS#8, as `stickpin keygen` and `openssl genpkey` write it).
 *
 * @throws AppError `bundle/key-file` (`reject`)
 */
export function parsePrivateKey(pem: string, name: string): PrivateKey {
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw badKey(name, 'it is not a private key in PEM; sign with the .key file of stickpin keygen');
  }
  if (/BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(pem)) {
    throw badKey(name, 'it is encrypted: decrypt it first with openssl pkey -in FILE -out PLAIN');
  }
  const key = attempt(name, () => createPrivateKey({ key: pem, format: 'pem' }));
  return { keyId: keyIdOf(createPublicKey(key)), algorithm: algorithmOf(key, name), key };
}

const KEY_ID = /^[0-9a-f]{64}$/;

/** A key id shortened for people: `5f0c8a12e9b4…`. Foreign text that is no key id is shown as `(none)`. */
export function shortKeyId(keyId: string): string {
  return KEY_ID.test(keyId) ? `${keyId.slice(0, 12)}…` : '(none)';
}

function keyIdOf(key: KeyObject): string {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

function algorithmOf(key: KeyObject, name: string): SignatureAlgorithm {
  const curve = key.asymmetricKeyDetails?.namedCurve;
  if (key.asymmetricKeyType === 'ed25519') return 'ed25519';
  if (key.asymmetricKeyType === 'ec' && curve === 'prime256v1') return 'ecdsa-p256';
  const found = [key.asymmetricKeyType, curve].filter((part) => part !== undefined).join(' ');
  throw badKey(name, `${found} is not supported: use an Ed25519 or ECDSA P-256 key`);
}

function attempt(name: string, read: () => KeyObject): KeyObject {
  try {
    return read();
  } catch (cause) {
    throw badKey(name, `its PEM can't be read: ${reasonOf(cause)}`, cause);
  }
}

function badKey(name: string, why: string, cause?: unknown) {
  return bundleError('bundle/key-file', `key file ${name}: ${why}`, { cause });
}
