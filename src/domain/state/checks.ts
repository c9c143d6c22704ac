import type { Digest } from '../model/digest.ts';
import type { ImageContent } from '../model/image.ts';
import type { Fault, Flaws } from '../model/reason.ts';

export type CheckCause =
  | 'unclean-boot'
  | 'request'
  /** Damaged images were pulled again or may be healed, or a check had no result. */
  | 'again';

export interface ContentResult {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly content: ImageContent;
  readonly unknownChecks?: number;
  /** `latestStamp` of all bundles when the image was first found broken. */
  readonly brokenSince?: number;
}

/** After this many checks in a row without a result no proof waits for one. The checks go on. */
export const UNCHECKABLE_AFTER = 3;

export interface RunningCheck {
  readonly cause: CheckCause;
  readonly done: number;
  readonly total: number;
  readonly readBytes: number;
}

export interface ContentChecks {
  readonly running: RunningCheck | undefined;
  /** The node was not shut down before its boot, and no check since has found all images whole. */
  readonly isDue: boolean;
  /** A check was due when the daemon started, and no check of all images has ended since. */
  readonly isAwaited: boolean;
  /** The check no longer waits for pulls: a preload of another stream may take hours. */
  readonly isOverdue: boolean;
  /** When the last due check has ended, in milliseconds since the epoch. */
  readonly endedAt: number | undefined;
  /** Results by reference. An image that was pulled since has none. */
  readonly results: ReadonlyMap<string, ContentResult>;
  /** References of images that were removed as damaged. They are checked when they return. */
  readonly healed: readonly string[];
  /** How often each damaged image was removed, by reference. */
  readonly healings: ReadonlyMap<string, number>;
}

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

export interface DocumentCheck {
  /** The begin, in milliseconds since the epoch. */
  readonly at: number;
  readonly releases: string;
  /** The media that could have lost documents, as one text. */
  readonly media: string;
  /** These documents are whole and on the node's own disk. */
  readonly kept: ReadonlySet<Digest>;
  /** References of images whose manifest or config is lost and not at hand. */
  readonly lacking: ReadonlySet<string>;
  readonly lackingChecks: number;
}

export interface DocumentChecks {
  readonly isRunning: boolean;
  readonly last: DocumentCheck | undefined;
}

/** Content of the runtime is on the disk, or only in memory, where a power cut destroys it. */
export interface StorageSyncs {
  /** References of images that are on the disk. */
  readonly synced: ReadonlySet<string>;
  /** The duration of the running sync, in milliseconds. */
  readonly runningMs: number | undefined;
  readonly failure: Fault | undefined;
}

/** The result of a pull of an image that is present. */
export type PullCheckEnd =
  /** `isProbe`: a probe from the same repository was pulled, since a pull takes pins away. */
  | { readonly kind: 'answered'; readonly isProbe?: boolean }
  | { readonly kind: 'not-asked' }
  | { readonly kind: 'not-sent' }
  /** `isAsked`: the runtime sent a request. `isSent`: stickpin's registry sent the manifest. */
  | { readonly kind: 'failed'; readonly reason: Fault; readonly isAsked: boolean; readonly isSent: boolean }
  | { readonly kind: 'timed-out'; readonly afterMs: number }
  | { readonly kind: 'runtime-away'; readonly reason: Fault }
  | { readonly kind: 'image-gone' };

export interface PullCheck {
  /** See `activationKey`. */
  readonly activation: string;
  readonly reference: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Counts since this activation or the start of the daemon, without requested ones. */
  readonly attempts: number;
  readonly end: PullCheckEnd;
}

export interface PullChecks {
  readonly isRunning: boolean;
  readonly last: PullCheck | undefined;
}

/** A blob that made a pull fail, with the place of its bad copy. */
export interface FailedBlob {
  readonly digest: Digest;
  readonly why: BadBlob['why'];
  /** Label of the medium. Undefined when no medium has the blob. */
  readonly medium?: string;
  readonly file?: string;
  /** No plugged medium has a copy that may be good. */
  readonly isLast: boolean;
}

/** A blob with no known copy or only a bad one. It is stored for when the medium is away. */
export interface BadBlob {
  readonly digest: Digest;
  /** `damaged`: another digest. `truncated`: another size. `absent`: another medium may have it. */
  readonly why: Flaws['why'];
  readonly medium: string;
  /** The image whose pull failed. Absent when the medium was being read. */
  readonly reference?: string;
}

/** Returns blobs with a bad copy: the bundle has to be copied again. */
export function flawedAmong(badBlobs: readonly BadBlob[]): readonly BadBlob[] {
  return badBlobs.filter(({ why }) => why !== 'absent');
}

export function flawsAmong(badBlobs: readonly BadBlob[]): Flaws | undefined {
  const [first, ...others] = flawedAmong(badBlobs);
  if (first === undefined) return undefined;
  const { digest, why, medium } = first;
  return { digest, why, medium, more: others.length };
}
