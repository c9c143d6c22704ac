import type { Digest } from '../domain/model/digest.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

export interface ByteMeter {
  totalBytes(): number;
  /** The highest offset that was sent of each blob. */
  sentBytes(): ReadonlyMap<Digest, number>;
  forget(digest: Digest): void;
  /** Blobs whose last transfer had a wrong digest, of layers that are kept during it. */
  damaged(): ReadonlySet<Digest>;
}

export interface RequestMeter {
  /**
   * Requests for a manifest by this digest or tag. A pull that does not increase it did not use our
   * mirror. The reference counts, because all images of a release may be in one repository.
   */
  manifestRequests(repository: string, reference: string): number;
  /** Answers with 200 or 304. After any other answer the runtime uses another registry. */
  manifestsSent(repository: string, reference: string): number;
  /** `path`: the mirror path of the repository (`mirrorPathOf`); `reference`: a digest or a tag. */
  onManifestRequest(listener: (path: string, reference: string) => void): Unsubscribe;
  /** Requests by digest for blobs and manifests of a repository that no source offers. */
  unknownRequests(repository: string): { readonly count: number; readonly last: Digest | undefined };
}

/** Manifests that show whether the runtime uses our registry. */
export interface MirrorProbes {
  /**
   * Offers a manifest that can't be pulled, and returns its digest. Another `seed` gives another
   * one.
   */
  offer(repository: string, seed: string): Digest;
}

export interface FlowMeter {
  waiting(): number;
  flow(digests: readonly Digest[]): BlobFlow;
}

export type TransferMeter = ByteMeter & RequestMeter & FlowMeter;

/** Sums over the transfers of some blobs. */
export interface BlobFlow {
  /** Bytes since the daemon started, repeated ones included. */
  readonly sentBytes: number;
  readonly opened: number;
  /** Open transfers, and searches for a blob. */
  readonly open: number;
  readonly awaitingMedium: number;
  /** Open transfers that wait for the runtime to read. */
  readonly awaitingRuntime: number;
}
