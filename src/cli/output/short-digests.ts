import { type Digest, shortDigest } from '../../domain/model/digest.ts';
import type { Layout } from './table.ts';

/**
 * A text whose digests are shortened on a terminal (`sha256:5f0c8a12e9b4…`), where they are wider
 * than what they belong to. Elsewhere, as for `grep`, they are whole.
 */
export function shortDigests(text: string, { columns }: Layout): string {
  if (columns === undefined) return text;
  return text.replace(/sha256:[0-9a-f]{64}/g, (digest) => shortDigest(digest as Digest));
}
