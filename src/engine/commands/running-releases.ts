import type { BundleId } from '../../domain/model/digest.ts';
import { type ContainersSeen, runningReleases } from '../../domain/release/running-releases.ts';
import type { StateReader } from '../../ports/state.ts';

/** Which releases run, as far as known. */
export interface Running {
  readonly releases: ReadonlySet<BundleId>;
  /**
   * False when the runtime does not answer. Then `releases` is the last known answer, which may be
   * empty.
   */
  readonly isSeenNow: boolean;
}

/** No container was observed yet. */
export const NOTHING_SEEN: Running = { releases: new Set(), isSeenNow: false };

/** Which releases run. Keeps the last observation for when the runtime does not answer. */
export interface RunningReleases {
  /** Stores the observation of a round. */
  saw(seen: ContainersSeen): void;
  /** Observes the containers now. Throws only for an abort. */
  look(signal: AbortSignal): Promise<Running>;
}

/** The adapters of {@link createRunningReleases}. */
export interface RunningReleasesDependencies {
  readonly store: StateReader;
  /** The current images and containers. Undefined when the runtime does not answer. */
  readonly lookNow: (signal: AbortSignal) => Promise<ContainersSeen | undefined>;
}

/** Creates it without an observation. */
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
