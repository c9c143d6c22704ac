import { createPublicKey, ECDH, type KeyObject } from 'node:crypto';
import { ed25519 } from '@noble/curves/ed25519.js';
import { hexOf } from '../../domain/model/digest.ts';
import { digestOf } from '../../platform/digest.ts';

/** Signature algorithms of bundle format 1; `ecdsa-p256` is with SHA-256 and DER signatures. */
export type SignatureAlgorithm = 'ed25519' | 'ecdsa-p256';

/** A public key in its canonical form, from which its key id is made. */
export interface CanonicalKey {
  /**
   * Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo; of a P-256 key with the point
   * uncompressed (RFC 5480, section 2.2).
   */
  readonly keyId: string;
  /**
   * Hashes of the other forms in which the same P-256 point can be written. Revocations and hints
   * may name the key by them.
   */
  readonly otherIds: readonly string[];
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/**
 * SubjectPublicKeyInfo up to the point, for each length that a P-256 point has (RFC 5480, sections
 * 2 and 2.1.1).
 */
const P256_HEADS = new Map([
  [65, Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')],
  [33, Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex')],
]);
/** The same for Ed25519 (RFC 8410, section 4). */
const ED25519_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

/**
 * Converts a public key to its canonical form, so that a key has one key id, however its file was
 * written.
 *
 * @returns why it is not a key that can sign bundles, as a clause for people.
 */
export function canonicalKey(key: KeyObject): CanonicalKey | { readonly why: string } {
  const der = derOf(key);
  if (der === undefined) return { why: 'its point is at infinity' };
  const curve = key.asymmetricKeyDetails?.namedCurve;
  if (key.asymmetricKeyType === 'ed25519') return canonicalEd25519(key, der);
  if (key.asymmetricKeyType === 'ec' && curve === 'prime256v1') return canonicalP256(der);
  const found = [key.asymmetricKeyType, curve].filter((part) => part !== undefined).join(' ');
  return { why: `${found} is not supported: use an Ed25519 or ECDSA P-256 key` };
}

function canonicalEd25519(key: KeyObject, der: Buffer): CanonicalKey | { readonly why: string } {
  if (!isEd25519Point(der.subarray(ED25519_HEAD.length))) {
    return { why: 'no Ed25519 key pair has its point (RFC 8032): anybody could sign for it' };
  }
  return { keyId: hashOf(der), otherIds: [], algorithm: 'ed25519', key };
}

/**
 * Whether 32 bytes are the one encoding of a point that an Ed25519 key pair can have. OpenSSL takes
 * any 32 bytes. A point of small order verifies signatures that nobody made, and a point with a
 * part of small order is a second public key of one private key. Encodings whose `y` is not below
 * the prime would give one point two key ids (RFC 8032, section 5.1.3).
 */
function isEd25519Point(encoded: Uint8Array): boolean {
  try {
    const point = ed25519.Point.fromBytes(encoded);
    return !point.is0() && point.isTorsionFree();
  } catch {
    return false;
  }
}

function canonicalP256(der: Buffer): CanonicalKey | { readonly why: string } {
  const found = pointOf(der);
  if (found === undefined)
    return { why: 'its curve is written out, and P-256 must be named (RFC 5480, section 2.1.1)' };
  const written = (form: 'compressed' | 'hybrid' | 'uncompressed'): Buffer => {
    const point = ECDH.convertKey(found, 'prime256v1', undefined, undefined, form) as Buffer;
    return Buffer.concat([P256_HEADS.get(point.length) ?? Buffer.alloc(0), point]);
  };
  const canonical = written('uncompressed');
  return {
    keyId: hashOf(canonical),
    otherIds: [hashOf(written('compressed')), hashOf(written('hybrid'))],
    algorithm: 'ecdsa-p256',
    key: createPublicKey({ key: canonical, format: 'der', type: 'spki' }),
  };
}

/** The point of a P-256 key in any form; undefined for a curve that is written out. */
function pointOf(der: Buffer): Buffer | undefined {
  for (const [length, head] of P256_HEADS) {
    if (der.length === head.length + length && der.subarray(0, head.length).equals(head)) {
      return der.subarray(head.length);
    }
  }
  return undefined;
}

/**
 * SubjectPublicKeyInfo; undefined for the point at infinity, which can't be exported. Call this
 * before reading any detail of the key: Node aborts the process on details of such a point.
 */
function derOf(key: KeyObject): Buffer | undefined {
  try {
    return key.export({ type: 'spki', format: 'der' });
  } catch {
    return undefined;
  }
}

function hashOf(der: Buffer): string {
  return hexOf(digestOf(der));
}
