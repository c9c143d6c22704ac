import type { Sha256Digest } from '../../platform/digest.ts';

/** Digests of OCI image-spec (descriptor.md, "Digests"), SHA-256 only. */
export type Digest = Sha256Digest;

/** The SHA-256 of a bundle's decoded payload. */
export type BundleId = Digest;

const DIGEST = /^sha256:[0-9a-f]{64}$/;

export function isDigest(text: string): text is Digest {
  return DIGEST.test(text);
}

export function parseDigest(text: string): Digest | undefined {
  return isDigest(text) ? text : undefined;
}

/** @throws RangeError unless `hex` has 64 hex digits */
export function digestFromHex(hex: string): Digest {
  const text = `sha256:${hex}`;
  if (!isDigest(text)) throw new RangeError(`not a SHA-256 in hex: ${hex}`);
  return text;
}

export function hexOf(digest: Digest): string {
  return digest.slice('sha256:'.length);
}

/** Shortens a digest for people: `sha256:5f0c8a12e9b4…`. */
export function shortDigest(digest: Digest): string {
  return `${digest.slice(0, 'sha256:'.length + 12)}…`;
}
