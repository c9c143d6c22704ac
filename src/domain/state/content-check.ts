import type { ImageContent } from '../model/image/image-content.ts';

/** Why images are checked. */
export type CheckCause =
  | 'unclean-boot'
  | 'request'
  /**
   * Damaged images were pulled again, or may be healed and were checked long ago; or it was not
   * known what is kept of images.
   */
  | 'again';

/** What the last look at the content of one image has shown. */
export interface ContentResult {
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
  readonly content: ImageContent;
  /** How many looks in a row have not shown what it is. Default none. */
  readonly unknownLooks?: number;
  /** Of a broken image: `latestStamp` of all bundles when it was first found so. */
  readonly brokenSince?: number;
}

/** A check that runs now. */
export interface RunningCheck {
  readonly cause: CheckCause;
  /** Images that were checked, of all of this check. */
  readonly done: number;
  readonly total: number;
  readonly readBytes: number;
}

/** What the engine remembers of checks of images. */
export interface ContentChecks {
  readonly running: RunningCheck | undefined;
  /**
   * The node was booted without having been shut down, and no check since has ended with all images
   * whole.
   */
  readonly isDue: boolean;
  /**
   * A check was due when the daemon started, and none of all images has ended since, not even with
   * a failure.
   */
  readonly isAwaited: boolean;
  /**
   * An activation has waited for a check for so long that the check no longer waits for pulls. A
   * preload of another stream may take hours.
   */
  readonly isOverdue: boolean;
  /** When the last check that was due has ended, in milliseconds since the epoch. */
  readonly endedAt: number | undefined;
  /** By reference. What was pulled since has none. */
  readonly results: ReadonlyMap<string, ContentResult>;
  /** References of images that were removed as damaged. They are checked once they are back. */
  readonly healed: readonly string[];
  /** How often each damaged image was removed to be pulled again, by reference. */
  readonly healings: ReadonlyMap<string, number>;
}

/** Nothing was checked. */
export const NO_CHECKS: ContentChecks = {
  running: undefined,
  isDue: false,
  isAwaited: false,
  isOverdue: false,
  endedAt: undefined,
  results: new Map(),
  healed: [],
  healings: new Map(),
};
