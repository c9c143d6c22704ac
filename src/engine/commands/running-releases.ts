import type { BundleId } from '../../domain/model/digest.ts';
import { type ContainersSeen, runningReleases } from '../../domain/release/running-releases.ts';
import type { StateStore } from '../../ports/state.ts';

export interface Running {
  readonly releases: ReadonlySet<BundleId>;
  /** False when the runtime does not answer: `releases` is the last known answer. */
  readonly isSeenNow: boolean;
}

export const NOTHING_SEEN: Running = { releases: new Set(), isSeenNow: false };

export class RunningReleases {
  private last: ContainersSeen | undefined;

  /** @param observe undefined when the runtime does not answer */
  constructor(
    private readonly store: Pick<StateStore, 'load'>,
    private readonly observe: (signal: AbortSignal) => Promise<ContainersSeen | undefined>,
  ) {}

  saw(seen: ContainersSeen): void {
    this.last = seen;
  }

  /** Throws only for an abort. */
  async read(signal: AbortSignal): Promise<Running> {
    const now = await this.observe(signal);
    this.last = now ?? this.last;
    if (this.last === undefined) return NOTHING_SEEN;
    return { releases: runningReleases(this.store.load().bundles, this.last), isSeenNow: now !== undefined };
  }
}
