import type { BundleId } from '../../domain/model/digest.ts';
import { type ContainersSeen, runningReleases } from '../../domain/release/lifecycle.ts';
import type { StateReader } from '../../ports/state.ts';

/** Which releases run, as far as can be known. */
export interface Running {
  readonly releases: ReadonlySet<BundleId>;
  /**
   * False when the runtime does not answer: then it is what was seen last, which may be nothing.
   */
  readonly isSeenNow: boolean;
}

/** Nobody has looked. */
export const NOTHING_SEEN: Running = { releases: new Set(), isSeenNow: false };

/** Tells which releases run, and remembers what was seen last for when nothing can be seen. */
export interface RunningReleases {
  /** A round has looked at the containers. */
  saw(seen: ContainersSeen): void;
  /** Looks at them now. Throws only for an abort. */
  look(signal: AbortSignal): Promise<Running>;
}

/** What {@link createRunningReleases} needs. */
export interface RunningReleasesDependencies {
  readonly store: StateReader;
  /** Images and containers as they are now; undefined when the runtime does not answer. */
  readonly lookNow: (signal: AbortSignal) => Promise<ContainersSeen | undefined>;
}

/** Nothing was seen yet. */
export function createRunningReleases({ store, lookNow }: RunningReleasesDependencies): RunningReleases {
  let last: ContainersSeen | undefined;
  return {
    saw: (seen) => {
      last = seen;
    },
    look: async (signal) => {
      const now = await lookNow(signal);
      last = now ?? last;
      if (last === undefined) return NOTHING_SEEN;
      return { releases: runningReleases(store.load().bundles, last), isSeenNow: now !== undefined };
    },
  };
}
