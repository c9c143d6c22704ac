import type { BundleId, Digest } from '../domain/model/digest.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { BlobSource } from '../ports/blobs.ts';
import type { OffersDocument } from './documents.ts';

/** The files of a bundle that are offered besides its blobs. */
export const OFFERED_FILES = ['bundle.dsse.json', 'contents.json', 'index.json'] as const;

/** One of {@link OFFERED_FILES}. */
export type OfferedFile = (typeof OFFERED_FILES)[number];

/**
 * Bundles that one node gives to another: what the wire form carries. The daemon has one over its
 * media and disk, and a client is one over a connection to another node.
 *
 * Every method may throw `offers/busy` (`wait`), see `busyError`, and what {@link BlobSource}
 * throws.
 */
export interface OfferedBundles extends BlobSource {
  /** What is offered now. */
  offers(signal: AbortSignal): Promise<Pick<OffersDocument, 'bundles' | 'node'>>;
  /** A file of an offered bundle, as it is on the medium; undefined when it is not offered. */
  file(bundleId: BundleId, name: OfferedFile, signal: AbortSignal): Promise<Buffer | undefined>;
  /** The blobs of an offered bundle with their sizes in bytes; undefined when it is not offered. */
  blobs(bundleId: BundleId, signal: AbortSignal): Promise<ReadonlyMap<Digest, number> | undefined>;
}

/** Offered bundles that change. */
export interface ChangingOffers extends OfferedBundles {
  /** Calls `listener` when the answer of {@link OfferedBundles.offers} may have changed. */
  onChange(listener: () => void): Unsubscribe;
}
