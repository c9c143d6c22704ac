import type { AppError } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import type { PrivateKey, PublicKey } from '../keys.ts';
import { isSignatureBy, makeSignature } from './signature.ts';

/**
 * A key that another program signs with, such as one in a hardware security module. Only its public
 * half is known here.
 */
export interface RemoteKey extends PublicKey {
  /** Makes a signature over a message. What it gives is checked by {@link signMessage}. */
  readonly signRemotely: (message: Buffer, signal: AbortSignal) => Promise<Buffer>;
}

/** What bundles are signed with. */
export type SigningKey = PrivateKey | RemoteKey;

/**
 * Signs a message. A signature of another program is checked with the public key before it is used.
 *
 * @throws AppError `bundle/signer` (`reject`) when the other program gives no signature, or one
 *   that does not fit its public key
 */
export async function signMessage(key: SigningKey, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  if (!('signRemotely' in key)) return makeSignature(key, message);
  const signature = await key.signRemotely(message, signal);
  signal.throwIfAborted();
  if (await isSignatureBy(key, signature, message)) return signature;
  throw unfit(key, signature);
}

/** Explains the mistakes that are made most. */
function unfit({ algorithm, keyId }: PublicKey, signature: Buffer): AppError {
  const hint = isText(signature)
    ? 'it gave text, but must give the bytes of the signature, neither as base64 nor as hex'
    : algorithm === 'ecdsa-p256' && signature.length === 64
      ? 'it gave 64 bytes, which may be r and s one after the other, but must give the signature in DER, as pkcs11-tool does with --signature-format openssl'
      : `does the command use the private key of the file of --signer-key, and does it sign its standard input with ${algorithm === 'ed25519' ? 'Ed25519' : 'ECDSA and SHA-256'}`;
  return bundleError(
    'bundle/signer',
    `the ${signature.length} bytes of the command of --signer are not a signature by key ${keyId.slice(0, 12)}…: ${hint}; nothing was signed`,
  );
}

function isText(bytes: Buffer): boolean {
  return /^[\x20-\x7e\r\n]+$/.test(bytes.toString('latin1'));
}
