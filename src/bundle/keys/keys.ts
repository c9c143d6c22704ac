import { createPrivateKey, createPublicKey, ECDH, type KeyObject, verify } from 'node:crypto';
import { ed25519 } from '@noble/curves/ed25519.js';
import { hexOf } from '../../domain/model/digest.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { bundleError } from '../bundle-error.ts';

/** The key id is made from this form. */
export type PublicKey = CanonicalKey;

/** `keyId` is that of its public half. */
export interface PrivateKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/** A malformed signature does not count. The thread pool verifies, which takes a millisecond. */
export function isSignatureBy(
  { algorithm, key }: PublicKey,
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

export interface RevokedId {
  readonly keyId: string;
  /** The ids of other encodings of the same key. Default: none. */
  readonly otherIds?: readonly string[];
}

/**
 * Reads PEM (SPKI, RFC 5480 and RFC 8410). Blank lines and `#` comments are allowed.
 *
 * @throws AppError `bundle/key-file`, also for several keys: the file's name is that of its only
 *   key
 */
export function parsePublicKey(text: string, name: string): PublicKey {
  refusePrivateKey(text, name);
  const { blocks, others } = pemBlocks(text, name);
  const [pem, second] = blocks;
  if (pem === undefined) throw badKey(name, 'it is not a public key in PEM (-----BEGIN PUBLIC KEY-----)');
  if (second !== undefined)
    throw badKey(name, `it holds ${blocks.length} public keys: write each key into its own file`);
  if (others.length > 0)
    throw badKey(name, `besides its public key it has the line ${quote(others[0])}: remove that line`);
  return readPem(pem, name);
}

/**
 * Reads public keys in PEM, and key ids, one a line, with `#` comments; upper case is accepted.
 *
 * @throws AppError `bundle/key-file` for an unknown line, which may be meant to revoke a key
 */
export function parseRevocations(text: string, name: string): RevokedId[] {
  refusePrivateKey(text, name);
  const { blocks, others } = pemBlocks(text, name);
  const foreign = others.find((line) => !KEY_ID.test(line.toLowerCase()));
  if (foreign === undefined && blocks.length + others.length > 0) {
    const named = others.map((line) => ({ keyId: line.toLowerCase() }));
    return [...blocks.map((pem) => readPem(pem, name)).map(({ keyId, otherIds }) => ({ keyId, otherIds })), ...named];
  }
  const why = foreign === undefined ? 'names no key' : `${quote(foreign)} is not a key id`;
  throw badKey(name, `${why}: it must hold public keys in PEM, or key ids (64 hex digits), one a line`);
}

/** PKCS#8, RFC 5958; or with the headers of RFC 1421. */
export function isEncryptedKey(pem: string): boolean {
  return /BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(pem);
}

/** Reads PEM (PKCS#8). @throws AppError `bundle/key-file`; `bundle/passphrase` absent or wrong */
export function parsePrivateKey(pem: string, name: string, passphrase?: string): PrivateKey {
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw badKey(name, 'it is not a private key in PEM; sign with the .key file of stickpin keygen');
  }
  const key = isEncryptedKey(pem)
    ? decryptKey(pem, name, passphrase)
    : attempt(name, () => createPrivateKey({ key: pem, format: 'pem' }));
  const { keyId, algorithm } = canonical(createPublicKey(key), name);
  return { keyId, algorithm, key };
}

function decryptKey(pem: string, name: string, passphrase: string | undefined): KeyObject {
  if (passphrase === undefined) {
    throw bundleError('bundle/passphrase', `key file ${name} is encrypted, and its passphrase is not known`);
  }
  try {
    return createPrivateKey({ key: pem, format: 'pem', passphrase });
  } catch (cause) {
    // A wrong passphrase gives wrong bytes, which fail in many ways.
    const why = 'it can not be decrypted: the passphrase is wrong, or the file is damaged';
    throw bundleError('bundle/passphrase', `key file ${name}: ${why}`, { cause });
  }
}

const KEY_ID = /^[0-9a-f]{64}$/;

/** `5f0c8a12e9b4…`. Text that is no key id is shown as `(none)`. */
export function shortKeyId(keyId: string): string {
  return KEY_ID.test(keyId) ? `${keyId.slice(0, 12)}…` : '(none)';
}

const [PEM_BEGIN, PEM_END] = ['-----BEGIN PUBLIC KEY-----', '-----END PUBLIC KEY-----'];

/**
 * RFC 7468. `others`: lines outside of blocks. @throws AppError `bundle/key-file` without an end
 */
function pemBlocks(
  text: string,
  name: string,
): { readonly blocks: readonly string[]; readonly others: readonly string[] } {
  const [blocks, others]: [string[], string[]] = [[], []];
  let open: string[] | undefined;
  for (const raw of text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)) {
    const line = raw.trim();
    if (open !== undefined) {
      open.push(line);
      if (line !== PEM_END) continue;
      blocks.push(`${open.join('\n')}\n`);
      open = undefined;
    } else if (line === PEM_BEGIN) open = [line];
    else if (line.replace(/#.*/, '').trim() !== '') others.push(line.replace(/#.*/, '').trim());
  }
  if (open !== undefined) throw badKey(name, `its PEM can't be read: ${PEM_END} is missing`);
  return { blocks, others };
}

function refusePrivateKey(text: string, name: string): void {
  if (!holdsPrivateKey(Buffer.from(text))) return;
  throw badKey(name, 'it holds a private key: remove it from here and use the .pub file that was made with it');
}

function readPem(pem: string, name: string): PublicKey {
  const key = attempt(name, () => createPublicKey({ key: pem, format: 'pem', type: 'spki' }));
  return canonical(key, name);
}

function canonical(key: KeyObject, name: string): CanonicalKey {
  const found = canonicalKey(key);
  if ('why' in found) throw badKey(name, found.why);
  return found;
}

function quote(line: string | undefined): string {
  return JSON.stringify(line?.slice(0, 80));
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

/** `ecdsa-p256` is with SHA-256 and DER signatures. */
export type SignatureAlgorithm = 'ed25519' | 'ecdsa-p256';

interface CanonicalKey {
  /** Hex SHA-256 of the DER SubjectPublicKeyInfo; P-256 uncompressed (RFC 5480, section 2.2). */
  readonly keyId: string;
  /** Hashes of other forms of a P-256 point. Revocations and hints may use them. */
  readonly otherIds: readonly string[];
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/** SubjectPublicKeyInfo up to the point, by its length (RFC 5480, sections 2 and 2.1.1). */
const P256_HEADS = new Map([
  [65, Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')],
  [33, Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex')],
]);
/** The same for Ed25519 (RFC 8410, section 4). */
const ED25519_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

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
 * Whether 32 bytes are the one encoding of a point that an Ed25519 key pair can have (RFC 8032,
 * section 5.1.3). OpenSSL takes any 32 bytes. A point of small order verifies signatures that
 * nobody made. A point with a part of small order is a second public key of one private key.
 * Encodings whose `y` is not below the prime would give one point two key ids.
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

/** The point of a P-256 key in any form. Returns undefined for a curve that is written out. */
function pointOf(der: Buffer): Buffer | undefined {
  for (const [length, head] of P256_HEADS) {
    if (der.length === head.length + length && der.subarray(0, head.length).equals(head)) {
      return der.subarray(head.length);
    }
  }
  return undefined;
}

/** Undefined means the point at infinity. Node aborts the process on any detail of such a key. */
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

/** OpenSSL, OpenSSH, cosign and PGP; minisign or signify in Base64; PuTTY; a JSON Web Key. */
const TEXT_FORMS = [
  /-----BEGIN [A-Z0-9 ]*PRIVATE KEY/,
  /^untrusted comment:.*\r?\n(?:RWRTY0Iy|RWQAAEIy|RWRCS)/m,
  /^PuTTY-User-Key-File-\d/m,
];
const OPENSSH = 'openssh-key-v1\0';
const DER_TYPES = ['pkcs8', 'pkcs1', 'sec1'] as const;

/** Whether a file is or contains a private key: in any form, encrypted or not. */
export function holdsPrivateKey(content: Buffer): boolean {
  // Every second byte of these texts is 0 in UTF-16.
  const text = content.toString('latin1').replaceAll('\0', '');
  if (TEXT_FORMS.some((form) => form.test(text))) return true;
  if (/"kty"\s*:/.test(text) && /"d"\s*:/.test(text)) return true;
  return isBinaryKey(content) || (/^[A-Za-z0-9+/=\s]+$/.test(text) && isBinaryKey(Buffer.from(text, 'base64')));
}

function isBinaryKey(content: Buffer): boolean {
  return content.toString('latin1', 0, OPENSSH.length) === OPENSSH || DER_TYPES.some((type) => isDer(content, type));
}

function isDer(key: Buffer, type: (typeof DER_TYPES)[number]): boolean {
  // A sequence (X.690); OpenSSL need not try anything else.
  if (key[0] !== 0x30) return false;
  try {
    createPrivateKey({ key, format: 'der', type });
    return true;
  } catch (error) {
    return systemCodeOf(error) === 'ERR_MISSING_PASSPHRASE';
  }
}
