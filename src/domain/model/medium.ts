import type { VerifiedBundle } from './bundle.ts';
import type { BundleId, Digest } from './digest.ts';
import type { QueuePlace } from './queue-place.ts';
import type { Fault } from './reason.ts';

/**
 * Identifies one plugging-in of one medium: `7-sdb1` (DISKSEQ and kernel name), or `dir:/path` for
 * a directory.
 */
export type MediumId = string;

/**
 * A blob that is not as it should be. `absent`: no such file; `truncated`: the file has another
 * size; `damaged`: its bytes have another digest.
 */
export interface FaultyBlob {
  readonly digest: Digest;
  readonly why: 'absent' | 'truncated' | 'damaged';
}

/**
 * A blob of a bundle that its directory does not have: a missing or bad one, or one in the base of
 * a delta.
 */
export type MissingBlob = FaultyBlob | { readonly digest: Digest; readonly why: 'in-base' };

/** Whether a blob is missing that the directory should have. */
export function isFaulty(blob: MissingBlob): blob is FaultyBlob {
  return blob.why !== 'in-base';
}

/** What was found in one bundle directory of a medium. */
export type FoundBundle =
  | {
      readonly kind: 'verified';
      /** Relative to the medium's root, for people. */
      readonly path: string;
      readonly bundle: VerifiedBundle;
      /** Manifests, indexes and configs of all images: what the local blob store keeps. */
      readonly documents: readonly Digest[];
      /**
       * Blobs of the bundle that this directory lacks (a volume of a larger bundle, or a bad copy).
       */
      readonly missing: readonly MissingBlob[];
      /**
       * It is an envelope: made to carry no layers, whose images come from their own registries.
       */
      readonly isEnvelope?: boolean;
    }
  /**
   * No trusted key signed it, and its digest may still be approved. Nothing of it was parsed but
   * the envelope, so it has no name.
   */
  | { readonly kind: 'unapproved'; readonly path: string; readonly bundleId: BundleId }
  | { readonly kind: 'rejected'; readonly path: string; readonly reason: Fault };

/** How far a medium has come. */
export type MediumState =
  | { readonly kind: 'attached' }
  | { readonly kind: 'mounted' }
  | {
      readonly kind: 'read';
      readonly bundles: readonly FoundBundle[];
      readonly trustRevision: string;
      /** Another node offers something else now. What it offered is used until that was read. */
      readonly isStale?: true;
    }
  | { readonly kind: 'failed'; readonly reason: Fault }
  /** It is plugged in, but somebody unmounted it. It is mounted again only on request. */
  | { readonly kind: 'unmounted' };

/** Whether another node can give what it offers. */
export interface PeerState {
  /** False while it serves others, or after it did not answer. It is asked again then. */
  readonly isReady: boolean;
  /** It has given nothing since it failed: others are asked first. */
  readonly hasFailed?: true;
  /** The place of this node among those that wait for it, when it told that. */
  readonly queue?: QueuePlace;
}

/** A medium as observed. */
export interface Medium {
  readonly mediumId: MediumId;
  /** What people call it: `sdb1`, or the path of a directory. */
  readonly label: string;
  /** The drop folder is always there; an empty one is nothing to report. */
  readonly isDropFolder: boolean;
  /** Present for what another node offers: it is no medium that somebody plugs in. */
  readonly peer?: PeerState;
  readonly state: MediumState;
  /**
   * It is being mounted or read, or waits after a failure. Its state is the earlier one until that
   * has ended.
   */
  readonly isBusy?: boolean;
}
