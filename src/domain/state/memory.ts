import type { BundleId, Digest } from '../model/digest.ts';
import type { Medium, MediumId } from '../model/medium.ts';
import type { Fault, Interruption } from '../model/reason.ts';
import type { ContentChecks, DocumentChecks, FailedBlob, PullChecks, StorageSyncs } from './checks.ts';
import type { HookMemory } from './hook.ts';
import type { Floors, PinLedger } from './release-record.ts';

export interface Kept {
  readonly done: number;
  readonly total: number;
}

export function isKept(kept: Kept | undefined): boolean {
  return kept !== undefined && kept.done === kept.total;
}

/** A long effect that runs beside the loop. */
export type RunningTask =
  | {
      readonly kind: 'pull';
      readonly bundleId: BundleId;
      readonly reference: string;
      /** The pull is from the image's own registry. */
      readonly online?: true;
    }
  | { readonly kind: 'activate'; readonly bundleId: BundleId }
  | { readonly kind: 'restore-tags'; readonly bundleId: BundleId; readonly tags: readonly string[] };

/** Forgotten when the task succeeds, when the media change, and at a restart. */
export interface TaskFailure {
  readonly task: RunningTask;
  readonly attempts: number;
  readonly reason: Fault;
  readonly blob?: FailedBlob;
  /** Only retries with long pauses, or another medium, remain. */
  readonly isExhausted?: boolean;
  /** Milliseconds since the epoch. Undefined: not before the media change. */
  readonly retryAt: number | undefined;
}

/** A restored tag. `at` is in milliseconds since the epoch. */
export interface TagGiven {
  readonly tag: string;
  readonly at: number;
  /** The tag named no image before. A restart forgets this: only the pause depends on it. */
  readonly wasGone?: true;
}

export interface PinsRequested {
  readonly references: readonly string[];
  /** Present images that were not reported pinned, joined. A new set causes a request at once. */
  readonly unpinned: string;
  readonly attempts: number;
  readonly at: number;
}

/** Facts that can't be observed. A restart clears all but `pinLedger` and `floors`. */
export interface Memory {
  readonly hooks: HookMemory;
  readonly running: readonly RunningTask[];
  readonly failures: readonly TaskFailure[];
  readonly pinsRequested: PinsRequested | undefined;
  /** These pins were requested without effect and not pulled since (see `isHeldByTagAlone`). */
  readonly unenforcedPins: readonly string[];
  readonly tagsGiven: readonly TagGiven[];
  /** Media of these had no more to give in the last round: another stick is needed. */
  readonly exhaustedBundles: readonly BundleId[];
  readonly arrivals: ReadonlyMap<MediumId, Arrival>;
  readonly lastCarriers: LastCarriers;
  readonly mediaFaults?: MediaFaults;
  /** The progress of adoptions: how many documents and attachments are kept, or found damaged. */
  readonly keeping: ReadonlyMap<BundleId, Kept>;
  /** Bytes left to copy from media to the node's own disk. */
  readonly copyingBytes: number | undefined;
  /** Why wanted layers could not be copied to the node's own disk. */
  readonly copyFaults?: ReadonlyMap<Digest, Fault>;
  /** The fault that stopped the effects of the last round. */
  readonly obstacle: Fault | undefined;
  /** The obstacle may end in the next round, so nobody is called yet. */
  readonly isObstacleBrief?: boolean;
  /** Media were not read yet since the start, so none counts as removed. */
  readonly areMediaUnread: boolean;
  /** Undefined when there is no ledger, or when it can't be read. */
  readonly pinLedger: PinLedger | undefined;
  /** Protects from older bundles and outlives the bundles. */
  readonly floors: Floors;
  readonly stateProblems: readonly Fault[];
  readonly pullChecks?: PullChecks;
  readonly contentChecks?: ContentChecks;
  /** If absent, every image counts as synced. */
  readonly storage?: StorageSyncs | undefined;
  /** If absent, no check is made. */
  readonly documentChecks?: DocumentChecks | undefined;
}

/** A longer pause means that the wall clock was set back. It counts as over. */
const LONGEST_PAUSE_MS = 5 * 60_000;

export function isWaiting({ retryAt }: Pick<TaskFailure, 'retryAt'>, now: number): boolean {
  return retryAt === undefined || (retryAt > now && retryAt - now <= LONGEST_PAUSE_MS);
}

/** The moment when a stick was plugged in. */
export interface Arrival {
  /** Milliseconds since the epoch. After a restart it is the time of the first round. */
  readonly at: number;
  readonly sequences: ReadonlyMap<string, number>;
}

/** The medium that carried a bundle when it was last seen. */
export interface LastCarrier {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly isDropFolder: boolean;
  readonly isPeer?: boolean;
  /** A medium of this node carried it, then or before. */
  readonly wasOnStick?: boolean;
  /** Uptime of the machine, in milliseconds. */
  readonly seenMs: number;
}

type LastCarriers = ReadonlyMap<BundleId, LastCarrier>;

/** Adds a round to `before`. @param seenMs uptime of the machine in that round */
export function lastCarriersIn(media: readonly Medium[], before: LastCarriers, seenMs: number): LastCarriers {
  const seen = media.flatMap(({ mediumId, label, isDropFolder, peer, state }) => {
    const carrier: LastCarrier = { mediumId, label, isDropFolder, seenMs, ...(peer !== undefined && { isPeer: true }) };
    const found = state.kind === 'read' ? state.bundles : [];
    return found.flatMap((one) => (one.kind === 'verified' ? [[one.bundle.bundleId, carrier] as const] : []));
  });
  const onStick = new Set(seen.flatMap(([bundleId, { isPeer }]) => (isPeer === true ? [] : [bundleId])));
  for (const [bundleId, { wasOnStick }] of before) if (wasOnStick === true) onStick.add(bundleId);
  const marked = seen.map(
    ([bundleId, one]) => [bundleId, onStick.has(bundleId) ? { ...one, wasOnStick: true } : one] as const,
  );
  return seen.length === 0 ? before : new Map([...before, ...marked]);
}

/** Returns the last medium of the bundle, if it is about to be read again. */
export function mediumReadAgain(last: LastCarrier | undefined, media: readonly Medium[]): Medium | undefined {
  const isUnread = ({ state }: Medium) => state.kind === 'attached' || state.kind === 'mounted';
  return media.find((medium) => medium.mediumId === last?.mediumId && isUnread(medium));
}

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

/** Kept until the medium is read, unmounted or removed, so that a failure is reported once. */
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
