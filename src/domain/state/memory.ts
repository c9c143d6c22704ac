import type { BundleId } from '../model/digest.ts';
import type { Medium, MediumId } from '../model/medium.ts';
import type { Fault, Interruption } from '../model/reason.ts';
import type { ContentChecks, DocumentChecks, FailedBlob, PullChecks } from './checks.ts';
import type { HookMemory } from './hook.ts';
import type { Floors, PinLedger } from './pin-ledger.ts';
import type { KnownRelease } from './release-record.ts';

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
  /** How it was when each plugged stick was seen first. */
  readonly arrivals: ReadonlyMap<MediumId, Arrival>;
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

/**
 * No pause after a failure is longer. One that seems to be comes from a wall clock that was set
 * back, and is over.
 */
const LONGEST_PAUSE_MS = 5 * 60_000;

/** Whether a task that failed must not be tried yet. */
export function isWaiting({ retryAt }: Pick<TaskFailure, 'retryAt'>, now: number): boolean {
  return retryAt === undefined || (retryAt > now && retryAt - now <= LONGEST_PAUSE_MS);
}

/** How it was when a stick was plugged in. */
export interface Arrival {
  /** Milliseconds since the epoch. After a restart: of the first round. */
  readonly at: number;
  /** At which sequence each stream was. */
  readonly sequences: ReadonlyMap<string, number>;
}

/** The medium that carried a bundle when it was last seen. */
export interface LastCarrier {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly isDropFolder: boolean;
  /** It was another node. Default false. */
  readonly isPeer?: boolean;
  /** Uptime of the machine, in milliseconds, when it was last seen. */
  readonly seenMs: number;
}

/**
 * What was last seen of each bundle, carried over from round to round. Nothing is known after a
 * restart.
 */
type LastCarriers = ReadonlyMap<BundleId, LastCarrier>;

/** Adds to `before` what a round saw. @param seenMs uptime of the machine in that round */
export function lastCarriersIn(media: readonly Medium[], before: LastCarriers, seenMs: number): LastCarriers {
  const seen = media.flatMap(({ mediumId, label, isDropFolder, peer, state }) => {
    const carrier: LastCarrier = { mediumId, label, isDropFolder, seenMs, ...(peer !== undefined && { isPeer: true }) };
    const found = state.kind === 'read' ? state.bundles : [];
    return found.flatMap((one) => (one.kind === 'verified' ? [[one.bundle.bundleId, carrier] as const] : []));
  });
  return seen.length === 0 ? before : new Map([...before, ...seen]);
}

/**
 * The medium that carried the bundle last, if it is plugged in and about to be read, as after a
 * change in a folder. It may carry the bundle still.
 */
export function mediumReadAgain(last: LastCarrier | undefined, media: readonly Medium[]): Medium | undefined {
  const isUnread = ({ state }: Medium) => state.kind === 'attached' || state.kind === 'mounted';
  return media.find((medium) => medium.mediumId === last?.mediumId && isUnread(medium));
}

/** How a preload lost the medium that carried its bundle last. */
export function interruptionOf(last: LastCarrier | undefined, media: readonly Medium[]): Interruption {
  const now = media.find(({ mediumId }) => mediumId === last?.mediumId);
  if (now?.state.kind === 'unmounted') return { kind: 'unmounted', medium: now.label };
  if (last?.isPeer === true) return { kind: 'peer-away', peer: last.label };
  if (last?.isDropFolder === true) return { kind: 'taken-out' };
  if (last !== undefined && isFolder(last)) return { kind: 'taken-out', folder: last.label };
  return { kind: 'unplugged' };
}

/** The label of a folder is its path. */
export function isFolder({ label }: Pick<Medium, 'label'>): boolean {
  return label.startsWith('/');
}

/**
 * Why each medium could not be read when it was tried last, carried over from round to round: until
 * it is read, unmounted or removed. So a try that fails for the same reason is no news. Nothing is
 * known after a restart.
 */
type MediaFaults = ReadonlyMap<MediumId, string>;

/** What is known after a round that saw `media`. */
export function mediaFaultsIn(media: readonly Medium[], before: MediaFaults): MediaFaults {
  const known = media.flatMap(({ mediumId, state }) => {
    if (state.kind === 'failed') return [[mediumId, state.reason.message] as const];
    const last = before.get(mediumId);
    const isTried = state.kind === 'attached' || state.kind === 'mounted';
    return isTried && last !== undefined ? [[mediumId, last] as const] : [];
  });
  return new Map(known);
}
