import type { Digest } from '../domain/model/digest.ts';

/** Bytes of blobs that the registry sent, since the daemon started. */
export interface ByteMeter {
  /** Bytes of blobs sent to the runtime, all in all. */
  totalBytes(): number;
  /** The furthest byte sent of each blob, since the start or since it was forgotten. */
  sentBytes(): ReadonlyMap<Digest, number>;
  forget(digest: Digest): void;
  /**
   * Blobs whose last transfer was seen to give bytes with another digest than theirs. Seen of
   * layers alone that are kept while they pass by, since nothing else is hashed here.
   */
  damaged(): ReadonlySet<Digest>;
}

/** What the registry was asked for, since the daemon started. */
export interface RequestMeter {
  /**
   * How often this manifest of this repository (`quay.io/coreos/etcd`) was asked for by its digest;
   * a pull that does not raise it never reached our mirror. By digest, since all images of a
   * release may lie in one repository.
   */
  manifestRequests(repository: string, digest: Digest): number;
  /** Blobs and manifests of a repository that were asked for by digest and that nothing offered. */
  unknownRequests(repository: string): { readonly count: number; readonly last: Digest | undefined };
}

/** How the registry's transfers go now. */
export interface FlowMeter {
  /** Transfers that wait for their medium to come back. */
  waiting(): number;
  /** How the transfers of these blobs stand, taken together. */
  flow(digests: readonly Digest[]): BlobFlow;
}

/** All that the registry measures, for the one that wires it. */
export type TransferMeter = ByteMeter & RequestMeter & FlowMeter;

/** How the transfers of some blobs stand. */
export interface BlobFlow {
  /** Bytes sent since the daemon started, whether or not for the first time. */
  readonly sentBytes: number;
  /** Transfers that were ever opened. */
  readonly opened: number;
  /** Transfers that are open now. */
  readonly open: number;
  /** Open ones that wait for their medium to come back. */
  readonly awaitingMedium: number;
  /** Open ones that wait for the runtime to take what was sent. */
  readonly awaitingRuntime: number;
}
