import type { NodeStatus } from '../domain/fleet/node-status.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { Endpoint } from '../domain/settings/value-types.ts';
import type { Unsubscribe } from '../platform/subscription.ts';

/**
 * A node of the cluster, as the metadata of its Node object tells. Whether its kubelet lives is not
 * among that.
 */
export interface ClusterNode {
  readonly name: string;
  /** Where it gives bundles to others; absent when it does not. */
  readonly endpoint?: Endpoint;
  /** What it gives. */
  readonly serves: readonly BundleId[];
  /** What it told last about its releases; absent when it told nothing that can be read. */
  readonly status?: NodeStatus;
}

/** The cluster as the Kubernetes API shows it. */
export interface Cluster {
  /** The name of the own Node. */
  self(): string;
  /** The first `InternalIP` of the own Node; undefined while that is not known. */
  address(): string | undefined;
  /**
   * All nodes by name, the own one included. While the API server does not answer: those that were
   * known last. Empty until it answered once.
   */
  nodes(): readonly ClusterNode[];
  /** Why this is not everything, or not up to date, as one sentence; undefined when it is. */
  trouble(): string | undefined;
  /** Calls `listener` after any of the above has changed. */
  onChange(listener: () => void): Unsubscribe;
  /**
   * Follows the cluster until `signal` aborts, then resolves. Never throws: what is wrong is
   * `trouble()`, and one line in the log when it begins and one when it ends.
   */
  run(signal: AbortSignal): Promise<void>;
}
