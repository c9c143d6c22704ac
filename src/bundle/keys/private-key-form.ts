import { createPrivateKey } from 'node:crypto';
import { systemCodeOf } from '../../platform/app-error.ts';

/**
 * PEM of OpenSSL, OpenSSH, cosign and PGP; a key of minisign or signify, whose Base64 begins so;
 * one of PuTTY; a JSON Web Key.
 */
const TEXT_FORMS = [
  /-----BEGIN [A-Z0-9 ]*PRIVATE KEY/,
  /^untrusted comment:.*\r?\n(?:RWRTY0Iy|RWQAAEIy|RWRCS)/m,
  /^PuTTY-User-Key-File-\d/m,
  /"kty"\s*:[^}]*"d"\s*:|"d"\s*:[^}]*"kty"\s*:/,
];
const OPENSSH = 'openssh-key-v1\0';
const DER_TYPES = ['pkcs8', 'pkcs1', 'sec1'] as const;

/** Whether the content of a file is, or has in it, a private key: in any form, encrypted or not. */
export function holdsPrivateKey(content: Buffer): boolean {
  // Of UTF-16 every second byte is 0 in all that is looked for.
  const text = content.toString('latin1').replaceAll('\0', '');
  if (TEXT_FORMS.some((form) => form.test(text))) return true;
  return isBinaryKey(content) || (/^[A-Za-z0-9+/=\s]+$/.test(text) && isBinaryKey(Buffer.from(text, 'base64')));
}

function isBinaryKey(content: Buffer): boolean {
  return content.toString('latin1', 0, OPENSSH.length) === OPENSSH || DER_TYPES.some((type) => isDer(content, type));
}

function isDer(key: Buffer, type: (typeof DER_TYPES)[number]): boolean {
  // A sequence (X.690); OpenSSL need not look at anything else.
  if (key[0] !== 0x30) return false;
  try {
    createPrivateKey({ key, format: 'der', type });
    return true;
  } catch (error) {
    return systemCodeOf(error) === 'ERR_MISSING_PASSPHRASE';
  }
}
