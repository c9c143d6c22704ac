import type { BundleId } from '../model/digest.ts';
import type { Medium, MediumId } from '../model/medium.ts';
import type { Interruption } from '../model/reason.ts';

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
export type LastCarriers = ReadonlyMap<BundleId, LastCarrier>;

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
