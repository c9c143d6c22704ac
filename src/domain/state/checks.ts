import type { Digest } from '../model/digest.ts';
import type { ImageContent } from '../model/image.ts';
import type { Fault, Flaws } from '../model/reason.ts';

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

/** What the last look at the documents of kept releases has shown. */
export interface DocumentLook {
  /** When it began, in milliseconds since the epoch. */
  readonly at: number;
  /** Which releases it was about, as one text: see `documentLookDue`. */
  readonly releases: string;
  /** Which media it could take lost documents from, as one text. */
  readonly media: string;
  /** Documents that are on the node's own disk and whole. */
  readonly kept: ReadonlySet<Digest>;
  /** References of images whose manifest or config is neither there nor anywhere at hand. */
  readonly lacking: ReadonlySet<string>;
  /** How many looks in a row have found some lacking. */
  readonly lackingLooks: number;
}

/** What the engine remembers of such looks since its start. */
export interface DocumentChecks {
  readonly isRunning: boolean;
  readonly last: DocumentLook | undefined;
}

/** How a pull of an image that is present has ended. */
export type PullCheckEnd =
  /** `isProbe`: a probe from the same repository was pulled, since a pull takes pins away. */
  | { readonly kind: 'answered'; readonly isProbe?: boolean }
  /** The pull succeeded, and the runtime did not ask our registry: another one answered. */
  | { readonly kind: 'not-asked' }
  /** The pull succeeded, but our registry did not send the manifest: another one answered. */
  | { readonly kind: 'not-sent' }
  /**
   * `isAsked`: whether the runtime asked our registry at all; `isSent`: whether our registry sent
   * the manifest.
   */
  | { readonly kind: 'failed'; readonly reason: Fault; readonly isAsked: boolean; readonly isSent: boolean }
  | { readonly kind: 'timed-out'; readonly afterMs: number }
  /** The runtime did not answer, or was being stopped. */
  | { readonly kind: 'runtime-away'; readonly reason: Fault }
  /** The image was gone when the pull was to begin. */
  | { readonly kind: 'image-gone' };

/** The last pull that tested whether pulls are answered. */
export interface PullCheck {
  /** What was activated then: see `activationKey`. */
  readonly activation: string;
  /** By digest. */
  readonly reference: string;
  /** Wall clock, milliseconds since the epoch. */
  readonly at: number;
  /**
   * How many there were since this activation or the start of the daemon, asked-for ones not
   * counted.
   */
  readonly attempts: number;
  readonly end: PullCheckEnd;
}

/** What the engine remembers of such pulls since its start. */
export interface PullChecks {
  readonly isRunning: boolean;
  readonly last: PullCheck | undefined;
}

/**
 * A blob that a pull failed for: where its bad copy lies, and whether anything plugged in has
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
   * may lie on another medium of the bundle.
   */
  readonly why: Flaws['why'];
  /** Label of the medium on which it was looked for. */
  readonly medium: string;
  /** The image whose pull failed for it; absent when it was noticed while the medium was read. */
  readonly reference?: string;
}

/** Those of which a copy was seen that is no good: the bundle has to be copied again. */
export function flawedAmong(badBlobs: readonly BadBlob[]): readonly BadBlob[] {
  return badBlobs.filter(({ why }) => why !== 'absent');
}

/** What is wrong with the copies that were seen; undefined when nothing is known to be. */
export function flawsAmong(badBlobs: readonly BadBlob[]): Flaws | undefined {
  const [first, ...others] = flawedAmong(badBlobs);
  if (first === undefined) return undefined;
  const { digest, why, medium } = first;
  return { digest, why, medium, more: others.length };
}
