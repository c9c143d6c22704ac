import type { ContentPointer } from '../bundle.ts';
import type { Digest } from '../digest.ts';
import type { Fault } from '../reason.ts';
import type { ContentFault } from './content-fault.ts';

/** What an image must consist of, as its signed bundle and its own documents say. */
export interface ExpectedImage {
  /** By digest. */
  readonly reference: string;
  /** Its manifest, the index above it if there is one, and its config. */
  readonly documents: readonly Digest[];
  /** The lowest first, for the platform of the node. */
  readonly layers: readonly ExpectedLayer[];
}

/** A layer of an {@link ExpectedImage}. `size`: of the compressed blob, in bytes. */
export interface ExpectedLayer extends ContentPointer {
  /** The digest of the uncompressed layer. */
  readonly diffId: Digest;
}

/**
 * What a look at the content of an image has shown.
 *
 * - `whole`: nothing is wrong. `bytes`: all blobs that the runtime keeps were read, and their
 *   digests are right; `records`: the runtime keeps no blobs, and its records of the unpacked
 *   layers fit;
 * - `broken`: something is;
 * - `absent`: the runtime does not list the image. `faults`: damaged blobs that it keeps of it all
 *   the same, by which the next pull would fail;
 * - `unknown`: it could not be looked at.
 */
export type ImageContent =
  | { readonly kind: 'whole'; readonly by: 'bytes' | 'records' }
  | { readonly kind: 'broken'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'absent'; readonly faults: readonly ContentFault[] }
  | { readonly kind: 'unknown'; readonly reason: Fault };
