import type { Digest } from '../domain/model/digest.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/** Bytes of blobs that the registry has sent since the daemon started. */
export interface ByteMeter {
  /** Total bytes of blobs that were sent to the runtime. */
  totalBytes(): number;
  /** For each blob the highest offset that was sent, since the start or since `forget`. */
  sentBytes(): ReadonlyMap<Digest, number>;
  forget(digest: Digest): void;
  /**
   * Blobs whose last transfer had a wrong digest. Known only for layers that are kept during their
   * transfer, because no other blob is hashed.
   */
  damaged(): ReadonlySet<Digest>;
}

/** Requests to the registry since the daemon started. */
export interface RequestMeter {
  /**
   * Number of requests for this manifest of this repository (`quay.io/coreos/etcd`) by this digest
   * or tag. A pull that does not increase it did not use our mirror. Counted by reference, because
   * all images of a release may be in one repository.
   */
  manifestRequests(repository: string, reference: string): number;
  /**
   * Number of those requests that were answered with the manifest (200), or with 304. After any
   * other answer the runtime asks another registry.
   */
  manifestsSent(repository: string, reference: string): number;
  /**
   * Calls `listener` after each request for a manifest. `path`: the mirror path of the repository
   * (`mirrorPathOf`); `reference`: a digest or a tag.
   */
  onManifestRequest(listener: (path: string, reference: string) => void): Unsubscribe;
  /** Requests by digest for blobs and manifests of a repository that no source offers. */
  unknownRequests(repository: string): { readonly count: number; readonly last: Digest | undefined };
}

/** Manifests that find out whether the runtime asks our registry. */
export interface MirrorProbes {
  /**
   * Offers a manifest under this repository that can't be pulled, and returns its digest. Another
   * `seed` gives another digest. A runtime that asks our registry gets the manifest here, and
   * asks no other registry for it.
   */
  offer(repository: string, seed: string): Digest;
}

/** The current transfers of the registry. */
export interface FlowMeter {
  /** Number of transfers that wait for an unplugged medium. */
  waiting(): number;
  /** The sums over the transfers of these blobs. */
  flow(digests: readonly Digest[]): BlobFlow;
}

/** All measurements of the registry. */
export type TransferMeter = ByteMeter & RequestMeter & FlowMeter;

/** Sums over the transfers of some blobs. */
export interface BlobFlow {
  /** Bytes sent since the daemon started, repeated ones included. */
  readonly sentBytes: number;
  /** Transfers that were opened since the daemon started. */
  readonly opened: number;
  /** Open transfers, and blobs that are looked for before theirs. */
  readonly open: number;
  /** Open transfers that wait for an unplugged medium. */
  readonly awaitingMedium: number;
  /** Open transfers that wait for the runtime to read. */
  readonly awaitingRuntime: number;
}
