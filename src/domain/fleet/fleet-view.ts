import type { BundleId } from '../model/digest.ts';
import type { NodeStatus } from './node-status.ts';
import type { Search } from './search.ts';

/** A bundle that a node offers to others. */
export interface OfferedBundle {
  readonly bundleId: BundleId;
  /** Of its payload, for people. Nobody has verified it. */
  readonly name: string;
  readonly version: string;
  readonly sequence: number;
  /** Whether the node has every blob that the bundle itself carries. */
  readonly isWhole: boolean;
  /** Changes with the set of blobs that are there. */
  readonly revision: string;
}

/** Another node as a source of bundles. */
export interface Peer {
  /** The name of its Node, or its address where that is not known. */
  readonly name: string;
  /** `10.0.0.4:9777`. */
  readonly address: string;
  /** Why it can't be asked now; absent while it answers. */
  readonly trouble?: string;
  readonly bundles: readonly OfferedBundle[];
}

/** A node of the cluster as this node knows it. */
export interface FleetNode {
  readonly name: string;
  /** What it told last; absent when it never told anything that could be read. */
  readonly status?: NodeStatus;
  /**
   * Its last sign of life, in milliseconds since the epoch, for people; absent when there was none.
   */
  readonly seenAt?: number;
  /**
   * It gave no sign of life for `fleet.absent`, by the monotonic clock, while the fleet process
   * listened. A jump of the wall clock and a restart of the process make nobody absent.
   */
  readonly isAbsent: boolean;
}

/** Everything that the fleet process tells the daemon about the cluster. */
export interface FleetView {
  /** The name of the own Node. */
  readonly self: string;
  /** All known nodes, by name, with the own one. */
  readonly nodes: readonly FleetNode[];
  readonly peers: readonly Peer[];
  /** Why the Kubernetes API is not read now; absent while it is. */
  readonly apiTrouble?: string;
  /** For how long the fleet process has looked for other nodes. Default `new`. */
  readonly search?: Search;
}
