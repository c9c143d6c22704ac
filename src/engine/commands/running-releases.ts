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
export class RunningReleases {
  private last: ContainersSeen | undefined;

  /**
   * @param observe the current images and containers; undefined when the runtime does not answer
   */
  constructor(
    private readonly store: StateReader,
    private readonly observe: (signal: AbortSignal) => Promise<ContainersSeen | undefined>,
  ) {}

  /** Stores the observation of a round. */
  saw(seen: ContainersSeen): void {
    this.last = seen;
  }

  /** Observes the containers now. Throws only for an abort. */
  async look(signal: AbortSignal): Promise<Running> {
    const now = await this.observe(signal);
    this.last = now ?? this.last;
    if (this.last === undefined) return NOTHING_SEEN;
    return { releases: runningReleases(this.store.load().bundles, this.last), isSeenNow: now !== undefined };
  }
}
