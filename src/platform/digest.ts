import { createHash, webcrypto } from 'node:crypto';

declare const digestBrand: unique symbol;

/** `sha256:` and 64 lower-case hex digits. */
export type Sha256Digest = string & { readonly [digestBrand]: 'Digest' };

/** A text counts in UTF-8. */
export function digestOf(content: string | Uint8Array): Sha256Digest {
  return `sha256:${createHash('sha256').update(content).digest('hex')}` as Sha256Digest;
}

/** Runs in another thread: several megabytes would block the event loop. */
export async function digestOfLarge(bytes: Buffer): Promise<Sha256Digest> {
  const hash = await webcrypto.subtle.digest('SHA-256', bytes);
  return `sha256:${Buffer.from(hash).toString('hex')}` as Sha256Digest;
}
