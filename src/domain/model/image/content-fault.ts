import type { Digest } from '../digest.ts';

/** What is wrong with what a runtime keeps of an image. */
export type ContentFault =
  /** `lost`: the runtime has a record of the blob and no file. */
  | { readonly kind: 'blob'; readonly digest: Digest; readonly why: 'lost' | 'truncated' | 'altered' | 'unreadable' }
  /** A manifest, an index or a config of which the runtime has no record. */
  | { readonly kind: 'document-absent'; readonly digest: Digest }
  /** A layer of which the runtime has neither the unpacked files nor the blob. */
  | { readonly kind: 'layer-absent'; readonly digest: Digest }
  /** The runtime's own records of an unpacked layer don't fit its storage. `what`: a clause. */
  | { readonly kind: 'records'; readonly what: string };

/**
 * What becomes of a damaged image.
 *
 * - `heal`: its blobs are at hand, so that it is removed and pulled again;
 * - `plug-in`: no plugged medium and no disk has all its blobs;
 * - `cancelled`: the preload of its release was cancelled;
 * - `in-use`: a container that has not exited uses it;
 * - `shared`: what is damaged belongs to another image too, which stays;
 * - `look`: the containers are not known;
 * - `give-up`: it was removed and pulled again, and is damaged still.
 */
export type DamageOutcome = 'heal' | 'plug-in' | 'cancelled' | 'in-use' | 'shared' | 'look' | 'give-up';
