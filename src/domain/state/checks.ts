import type { Digest } from '../model/digest.ts';
import type { ImageContent } from '../model/image.ts';
import type { Fault, Flaws } from '../model/reason.ts';

export type CheckCause =
  | 'unclean-boot'
  | 'request'
  /**
   * Damaged images were pulled again, or may be healed and were checked long ago; or it was not
   * known what is kept of images.
   */
  | 'again';

/** The result of the last check of one image. */
export interface ContentResult {
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
  readonly content: ImageContent;
  /** How many checks in a row had no result. Default none. */
  readonly unknownChecks?: number;
  /** Of a broken image: `latestStamp` of all bundles when it was first found so. */
  readonly brokenSince?: number;
}

export interface RunningCheck {
  readonly cause: CheckCause;
  /** Images that were checked, of all of this check. */
  readonly done: number;
  readonly total: number;
  readonly readBytes: number;
}

export interface ContentChecks {
  readonly running: RunningCheck | undefined;
  /** The node was not shut down before its boot, and no check since has found all images whole. */
  readonly isDue: boolean;
  /**
   * A check was due when the daemon started, and none of all images has ended since, not even with
   * a failure.
   */
  readonly isAwaited: boolean;
  /**
   * An activation has waited so long for a check that the check no longer waits for pulls. A
   * preload of another stream may take hours.
   */
  readonly isOverdue: boolean;
  /** When the last check that was due has ended, in milliseconds since the epoch. */
  readonly endedAt: number | undefined;
  /** By reference. An image that was pulled since has none. */
  readonly results: ReadonlyMap<string, ContentResult>;
  /** References of images that were removed as damaged. They are checked once they are back. */
  readonly healed: readonly string[];
  /** How often each damaged image was removed to be pulled again, by reference. */
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

/** The result of the last check of the documents of kept releases. */
export interface DocumentLook {
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  /** The releases in one text: see `documentLookDue`. */
  readonly releases: string;
  /** The media that could have lost documents, as one text. */
  readonly media: string;
  /** Documents that are on the node's own disk and whole. */
  readonly kept: ReadonlySet<Digest>;
  /** References of images whose manifest or config is lost and not at hand. */
  readonly lacking: ReadonlySet<string>;
  /** How many checks in a row have found some lacking. */
  readonly lackingChecks: number;
}

export interface DocumentChecks {
  readonly isRunning: boolean;
  readonly last: DocumentLook | undefined;
}

/** How a pull of an image that is present has ended. */
export type PullCheckEnd =
  /** `isProbe`: a probe from the same repository was pulled, since a pull takes pins away. */
  | { readonly kind: 'answered'; readonly isProbe?: boolean }
  /** The pull succeeded without a request to our registry: another one answered. */
  | { readonly kind: 'not-asked' }
  /** The pull succeeded, but our registry did not send the manifest: another one answered. */
  | { readonly kind: 'not-sent' }
  /**
   * `isAsked`: whether the runtime sent our registry a request at all; `isSent`: whether our
   * registry sent the manifest.
   */
  | { readonly kind: 'failed'; readonly reason: Fault; readonly isAsked: boolean; readonly isSent: boolean }
  | { readonly kind: 'timed-out'; readonly afterMs: number }
  /** The runtime did not answer, or was being stopped. */
  | { readonly kind: 'runtime-away'; readonly reason: Fault }
  /** The image was gone when the pull was to begin. */
  | { readonly kind: 'image-gone' };

/** The last pull that tested whether pulls are answered. */
export interface PullCheck {
  /** See `activationKey`. */
  readonly activation: string;
  /** By digest. */
  readonly reference: string;
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
  /** Since this activation or the start of the daemon, without requested ones. */
  readonly attempts: number;
  readonly end: PullCheckEnd;
}

export interface PullChecks {
  readonly isRunning: boolean;
  readonly last: PullCheck | undefined;
}

/**
 * A blob for which a pull failed: the place of its bad copy, and whether anything plugged in has
 * another one.
 */
export interface FailedBlob {
  readonly digest: Digest;
  readonly why: BadBlob['why'];
  /** Label of the medium; undefined when the blob is on none. */
  readonly medium?: string;
  /** The file on the medium, relative to its root. */
  readonly file?: string;
  /** Nothing plugged in has a copy that may be good. */
  readonly isLast: boolean;
}

/**
 * A blob that a bundle needs and of which only a bad copy, or none, was seen. Stored, so that it is
 * known when the medium is away.
 */
export interface BadBlob {
  readonly digest: Digest;
  /**
   * `damaged`: its bytes have another digest. `truncated`: its file has another size. `absent`: it
   * may be on another medium of the bundle.
   */
  readonly why: Flaws['why'];
  /** Label of the medium that was searched. */
  readonly medium: string;
  /** The image whose pull failed; absent when the fault was found while the medium was read. */
  readonly reference?: string;
}

/** Those with a bad copy: the bundle has to be copied again. */
export function flawedAmong(badBlobs: readonly BadBlob[]): readonly BadBlob[] {
  return badBlobs.filter(({ why }) => why !== 'absent');
}

/** Undefined when nothing is known to be wrong. */
export function flawsAmong(badBlobs: readonly BadBlob[]): Flaws | undefined {
  const [first, ...others] = flawedAmong(badBlobs);
  if (first === undefined) return undefined;
  const { digest, why, medium } = first;
  return { digest, why, medium, more: others.length };
}
