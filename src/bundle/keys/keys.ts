import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';
import { type CanonicalKey, canonicalKey, type SignatureAlgorithm } from './canonical-key.ts';
import { holdsPrivateKey } from './private-key-form.ts';

export type { SignatureAlgorithm };

/** A public key in its canonical form, from which its key id is made. */
export type PublicKey = CanonicalKey;

/** A private key with the id of its public half. */
export interface PrivateKey {
  readonly keyId: string;
  readonly algorithm: SignatureAlgorithm;
  readonly key: KeyObject;
}

/** The revocation of one key by a `*.revoked` file. */
export interface RevokedId {
  readonly keyId: string;
  /** Hashes of other encodings of the same key. Default: none. */
  readonly otherIds?: readonly string[];
}

/**
 * Reads a public key from PEM (`-----BEGIN PUBLIC KEY-----`, SPKI, RFC 5480 and RFC 8410). Blank
 * lines and `#` comments are allowed.
 *
 * @param name the file's name, for errors.
 * @throws AppError `bundle/key-file` (`reject`), also when there is more than one key: the file's
 *   name is the name of its only key.
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
 * The keys that a `*.revoked` file revokes: all its public keys in PEM, and all its key ids, one
 * per line, with `#` comments. Upper-case digits are accepted. An unknown line is an error, since
 * it may be meant to revoke a key.
 *
 * @throws AppError `bundle/key-file` (`reject`) when a line is none of these, or when it names no
 *   key.
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

/**
 * Whether a private key in PEM is encrypted (PKCS#8, RFC 5958; or with the headers of RFC 1421).
 */
export function isEncryptedKey(pem: string): boolean {
  return /BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(pem);
}

/**
 * Reads a private key from PEM (PKCS#8, as `stickpin keygen` and `openssl genpkey` write it).
 *
 * @param passphrase of an encrypted key.
 * @throws AppError `bundle/key-file` (`reject`); `bundle/passphrase` (`reject`) when the key is
 *   encrypted, and the passphrase is absent or does not decrypt it
 */
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

/**
 * A key id shortened for display: `5f0c8a12e9b4…`. Foreign text that is not a key id is shown as
 * `(none)`.
 */
export function shortKeyId(keyId: string): string {
  return KEY_ID.test(keyId) ? `${keyId.slice(0, 12)}…` : '(none)';
}

const [PEM_BEGIN, PEM_END] = ['-----BEGIN PUBLIC KEY-----', '-----END PUBLIC KEY-----'];

/**
 * The PEM blocks of a text (RFC 7468), and its other lines without blank ones and `#` comments.
 * Accepts any line ends and a byte order mark.
 *
 * @throws AppError `bundle/key-file` (`reject`) when a block has no end.
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
