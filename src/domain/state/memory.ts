import type { BundleId } from '../model/digest.ts';
import type { MediumId } from '../model/medium.ts';
import type { Fault } from '../model/reason.ts';
import type { FailedBlob } from './bad-blob.ts';
import type { ContentChecks } from './content-check.ts';
import type { DocumentChecks } from './document-check.ts';
import type { Floors } from './floor-set.ts';
import type { HookMemory } from './hook.ts';
import type { KnownRelease } from './known-release.ts';
import type { LastCarriers } from './last-carrier.ts';
import type { MediaFaults } from './media-faults.ts';
import type { PinLedger } from './pin-ledger.ts';
import type { PullChecks } from './pull-check.ts';

/** How many of something were kept so far, of how many. */
export interface Kept {
  readonly done: number;
  readonly total: number;
}

/** A long effect that runs beside the loop. */
export type RunningTask =
  | {
      readonly kind: 'pull';
      readonly bundleId: BundleId;
      readonly reference: string;
      /** From the image's own registry, since its blobs are not at hand. */
      readonly online?: true;
    }
  | { readonly kind: 'activate'; readonly bundleId: BundleId }
  /** Give these tags to the images of an activated release again. */
  | { readonly kind: 'restore-tags'; readonly bundleId: BundleId; readonly tags: readonly string[] };

/**
 * How a pull, or an activation, failed last. Forgotten when it succeeds, when the media change, and
 * at a restart.
 */
export interface TaskFailure {
  readonly task: RunningTask;
  readonly attempts: number;
  readonly reason: Fault;
  /** The blob that it failed for, if that is known. */
  readonly blob?: FailedBlob;
  /**
   * The quick tries are used up, or there are none: what is left are tries with long pauses, or
   * another medium.
   */
  readonly isExhausted?: boolean;
  /**
   * When it may be tried again, in milliseconds since the epoch; undefined: not before the media
   * change.
   */
  readonly retryAt: number | undefined;
}

/** A tag was given to its image again, in milliseconds since the epoch. */
export interface TagGiven {
  readonly tag: string;
  readonly at: number;
}

/** What was last asked of the runtime in terms of pins, so that asking again can back off. */
export interface PinsRequested {
  readonly references: readonly string[];
  /**
   * Images that were present and not reported pinned when we asked, joined; a new set is asked for
   * at once.
   */
  readonly unpinned: string;
  readonly attempts: number;
  readonly at: number;
}

/**
 * What the engine remembers from round to round: what it asked for, what it is doing, what failed.
 * Nothing of it can be seen by looking at the node. Most of it is gone after a restart; `pinLedger`
 * and `floors` are kept on the disk.
 */
export interface Memory {
  readonly hooks: HookMemory;
  /** Long effects that run now. */
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  /** Undefined: pins were not asked for since the start. */
  readonly pinsRequested: PinsRequested | undefined;
  /**
   * References whose pins were asked for in vain, and that were not pulled since: see
   * `isHeldByTagAlone`.
   */
  readonly unenforcedPins: readonly string[];
  /**
   * Tags that were given to their images again, oldest first, as far as it matters: see
   * `tagsGivenLately`.
   */
  readonly tagsGiven: readonly TagGiven[];
  /**
   * Bundles whose media had no more to give in the last round: another stick is wanted, not the
   * same one again.
   */
  readonly exhaustedBundles: readonly BundleId[];
  /** At which sequence each stream was when each plugged stick was seen first, by stream. */
  readonly arrivals: ReadonlyMap<MediumId, ReadonlyMap<string, number>>;
  /** What carried each bundle when it was last seen. */
  readonly lastCarriers: LastCarriers;
  /** Why media could not be read, up to the last round. Default none. */
  readonly mediaFaults?: MediaFaults;
  /**
   * Bundles that are being adopted: how many of their documents and attachments are kept on the
   * node's own disk, or found damaged.
   */
  readonly keeping: ReadonlyMap<BundleId, Kept>;
  /**
   * Bytes left to copy from media to the node's own disk; undefined while nothing is being copied.
   */
  readonly copyingBytes: number | undefined;
  /** What kept the last round from doing all that it wanted, if anything. */
  readonly obstacle: Fault | undefined;
  /**
   * The daemon has just started, and what is plugged in was not read yet: nothing is known to be
   * away.
   */
  readonly isLooking: boolean;
  /**
   * What is remembered of pins beside the database; undefined when there is nothing, or when it
   * can't be read.
   */
  readonly pinLedger: PinLedger | undefined;
  /**
   * What was last reported of releases before the daemon started, in case all other records of them
   * are lost. Default nothing.
   */
  readonly reportedBefore?: readonly KnownRelease[];
  /** What protects from older bundles. Remembered beside the bundles, so that it outlives them. */
  readonly floors: Floors;
  /** Files of our own state that were found lost or damaged when the daemon started. */
  readonly stateProblems: readonly Fault[];
  /** Test pulls since the start. Default none. */
  readonly pullChecks?: PullChecks;
  /** Checks of the content of images. Default none. */
  readonly contentChecks?: ContentChecks;
  /** Looks at the documents of releases. Default none, and none is made. */
  readonly documentChecks?: DocumentChecks | undefined;
}
