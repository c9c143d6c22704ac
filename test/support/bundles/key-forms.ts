import { createPublicKey, type KeyObject } from 'node:crypto';

const P256_HEADS = {
  compressed: '3039301306072a8648ce3d020106082a8648ce3d030107032200',
  hybrid: '3059301306072a8648ce3d020106082a8648ce3d030107034200',
} as const;

/** The last bytes of a SubjectPublicKeyInfo of Ed25519: the encoded point. */
export function publicPointOf(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' }).subarray(-32);
}

/** A P-256 public key in PEM with its point written in another form. */
export function otherForm(pem: string, form: keyof typeof P256_HEADS): string {
  const der = createPublicKey(pem).export({ type: 'spki', format: 'der' });
  const [x, y] = [der.subarray(-64, -32), der.subarray(-32)];
  const odd = (y[31] ?? 0) & 1;
  const point =
    form === 'compressed' ? Buffer.concat([Buffer.of(2 + odd), x]) : Buffer.concat([Buffer.of(6 + odd), x, y]);
  return pemOf(Buffer.concat([Buffer.from(P256_HEADS[form], 'hex'), point]));
}

/** An Ed25519 public key in PEM of any 32 bytes. */
export function ed25519Pem(point: Uint8Array): string {
  return pemOf(Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), point]));
}

/** DER as PEM, `-----BEGIN PUBLIC KEY-----`. */
export function pemOf(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN PUBLIC KEY-----\n${lines.join('\n')}\n-----END PUBLIC KEY-----\n`;
}
