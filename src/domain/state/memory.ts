import type { BundleId } from '../model/digest.ts';
import type { Medium, MediumId } from '../model/medium.ts';
import type { Fault, Interruption } from '../model/reason.ts';
import type { ContentChecks, DocumentChecks, FailedBlob, PullChecks } from './checks.ts';
import type { HookMemory } from './hook.ts';
import type { Floors, PinLedger } from './pin-ledger.ts';
import type { KnownRelease } from './release-record.ts';

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
  /** Restore these tags of an activated release. */
  | { readonly kind: 'restore-tags'; readonly bundleId: BundleId; readonly tags: readonly string[] };

/** Forgotten when the task succeeds, when the media change, and at a restart. */
export interface TaskFailure {
  readonly task: RunningTask;
  readonly attempts: number;
  readonly reason: Fault;
  readonly blob?: FailedBlob;
  /**
   * The quick tries are used up, or there are none: only tries with long pauses, or another medium,
   * are left.
   */
  readonly isExhausted?: boolean;
  /**
   * When it may be retried, in milliseconds since the epoch; undefined: not before the media
   * change.
   */
  readonly retryAt: number | undefined;
}

/** A tag was restored, in milliseconds since the epoch. */
export interface TagGiven {
  readonly tag: string;
  readonly at: number;
}

/** The last request for pins, so that the next one can back off. */
export interface PinsRequested {
  readonly references: readonly string[];
  /**
   * Images that were present and not reported pinned then, joined; a new set causes a request at
   * once.
   */
  readonly unpinned: string;
  readonly attempts: number;
  readonly at: number;
}

/**
 * What the engine remembers from round to round: its requests, tasks and failures. Nothing of it
 * can be observed on the node. Most of it is gone after a restart; `pinLedger` and `floors` are
 * kept on the disk.
 */
export interface Memory {
  readonly hooks: HookMemory;
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  /** Undefined: no request for pins since the start. */
  readonly pinsRequested: PinsRequested | undefined;
  /** References with a vain request for pins, and without a pull since: see `isHeldByTagAlone`. */
  readonly unenforcedPins: readonly string[];
  /** Restored tags, oldest first, as far as they matter: see `tagsGivenLately`. */
  readonly tagsGiven: readonly TagGiven[];
  /** Bundles whose media had no more to give in the last round: another stick is needed. */
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
  /** What kept the last round from doing all that it wanted. */
  readonly obstacle: Fault | undefined;
  /**
   * The daemon has just started, and what is plugged in was not read yet: nothing counts as away.
   */
  readonly isLooking: boolean;
  /**
   * What is stored of pins beside the database; undefined when there is nothing, or when it can't
   * be read.
   */
  readonly pinLedger: PinLedger | undefined;
  /**
   * The last report of releases before the daemon started, in case all other records of them are
   * lost. Default nothing.
   */
  readonly reportedBefore?: readonly KnownRelease[];
  /** Protects from older bundles. Outlives the bundles. */
  readonly floors: Floors;
  /** Files of our own state that were found lost or damaged when the daemon started. */
  readonly stateProblems: readonly Fault[];
  /** Default none. */
  readonly pullChecks?: PullChecks;
  /** Default none. */
  readonly contentChecks?: ContentChecks;
  /** Default none, and no check is made. */
  readonly documentChecks?: DocumentChecks | undefined;
}

/**
 * No pause after a failure is longer. A longer one comes from a wall clock that was set back, and
 * is over.
 */
const LONGEST_PAUSE_MS = 5 * 60_000;

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

/** Carried over from round to round. Nothing is known after a restart. */
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
 * change in a folder. It may still carry the bundle.
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
 * Why the last try to read each medium failed, carried over from round to round until it is read,
 * unmounted or removed. So the same failure is not reported twice. Nothing is known after a
 * restart.
 */
type MediaFaults = ReadonlyMap<MediumId, string>;

export function mediaFaultsIn(media: readonly Medium[], before: MediaFaults): MediaFaults {
  const known = media.flatMap(({ mediumId, state }) => {
    if (state.kind === 'failed') return [[mediumId, state.reason.message] as const];
    const last = before.get(mediumId);
    const isTried = state.kind === 'attached' || state.kind === 'mounted';
    return isTried && last !== undefined ? [[mediumId, last] as const] : [];
  });
  return new Map(known);
}
