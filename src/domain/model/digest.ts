import type { Sha256Digest } from '../../platform/digest.ts';

/**
 * A content digest as in the OCI image-spec (descriptor.md, "Digests"), SHA-256 only: `sha256:` and
 * 64 lower-case hex digits.
 */
export type Digest = Sha256Digest;

/** The SHA-256 of a bundle's decoded payload: the identity of a bundle. */
export type BundleId = Digest;

const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** Whether `text` is a {@link Digest}. */
export function isDigest(text: string): text is Digest {
  return DIGEST.test(text);
}

/** `text` as a {@link Digest}, or undefined. */
export function parseDigest(text: string): Digest | undefined {
  return isDigest(text) ? text : undefined;
}

/**
 * A {@link Digest} of 64 hex digits, as `crypto` gives them. @throws RangeError when `hex` is
 * anything else.
 */
export function digestFromHex(hex: string): Digest {
  const text = `sha256:${hex}`;
  if (!isDigest(text)) throw new RangeError(`not a SHA-256 in hex: ${hex}`);
  return text;
}

/** The 64 hex digits of a digest. */
export function hexOf(digest: Digest): string {
  return digest.slice('sha256:'.length);
}

/** A digest shortened for people: `sha256:5f0c8a12e9b4…`. */
export function shortDigest(digest: Digest): string {
  return `${digest.slice(0, 'sha256:'.length + 12)}…`;
}
