import type { BundleId } from '../model/digest.ts';
import type { VersionScheme } from '../model/version/version-scheme.ts';
import type { Milestone } from './milestones.ts';

/** One release of a stream on this node, as far as its place in the update graph depends on it. */
export interface PathRelease {
  readonly id: BundleId;
  readonly version: string;
  /** Orders the releases of a stream. No two have the same. */
  readonly sequence: number;
  /** Rule `from`. */
  readonly from?: string;
  /** Rule `endOfLife`, in milliseconds since the epoch. */
  readonly endOfLife?: number;
  /** It was rolled back on this node, or has the very images of one that was. */
  readonly isDenied?: boolean;
  /** It is not trusted now, so that it is not activated. */
  readonly isWithdrawn?: boolean;
  /** It came to the node after the present release was activated there. */
  readonly isLate?: boolean;
  /** It was activated on this node before: it is chosen only when a person asks for it. */
  readonly wasActivated?: boolean;
}

/** Where a node is in the update graph of a stream. */
export interface Position {
  readonly version: string;
  /** Absent where only its version is known. */
  readonly sequence?: number;
  /** Absent where no release of that version is known here. */
  readonly id?: BundleId;
  /** It counts as passed: it has proven itself, or the settings say that it runs. */
  readonly isProven: boolean;
  /**
   * What says so: `activated`: it was activated last; `running`: containers run from it and not
   * from the one that was activated last; `setting`: `streams.<name>.current`.
   */
  readonly source: 'activated' | 'running' | 'setting';
  /**
   * The version of the release that was activated last, where containers run from this one and none
   * from it yet. Its tags hold, so the next container may be of it.
   */
  readonly activated?: string;
}

/** The settings that the path depends on (`[update]`). */
export interface PathPolicy {
  readonly allowDowngrade: boolean;
  readonly allowEndOfLife: boolean;
}

/** Everything that the way of a node through the releases of one stream follows from. */
export interface StreamPath extends PathPolicy {
  readonly stream: string;
  /** Undefined while all versions fit both. */
  readonly scheme: VersionScheme | undefined;
  /** Undefined: nothing is known to be activated here, so that no rule about edges applies. */
  readonly position: Position | undefined;
  /**
   * Highest sequence that was activated here; 0 when none was. Nothing below it is chosen, but a
   * downgrade that is allowed.
   */
  readonly floor: number;
  /** By sequence, each id once. */
  readonly releases: readonly PathRelease[];
  /** Barriers and dead ends in force, by version. */
  readonly milestones: ReadonlyMap<string, Milestone>;
  /** By what time an end of life is judged, in milliseconds since the epoch. */
  readonly time: number;
}
