import type { BundleId } from '../model/digest.ts';
import type { Medium, MediumId } from '../model/medium.ts';

/** The medium that carried a bundle when it was last seen. */
export interface LastCarrier {
  readonly mediumId: MediumId;
  readonly label: string;
  readonly isDropFolder: boolean;
}

/**
 * What was last seen of each bundle, carried over from round to round. Nothing is known after a
 * restart.
 */
export type LastCarriers = ReadonlyMap<BundleId, LastCarrier>;

/** Adds to `before` what a round saw. */
export function lastCarriersIn(media: readonly Medium[], before: LastCarriers): LastCarriers {
  const seen = media.flatMap(({ mediumId, label, isDropFolder, state }) => {
    const found = state.kind === 'read' ? state.bundles : [];
    return found.flatMap((one) =>
      one.kind === 'verified' ? [[one.bundle.bundleId, { mediumId, label, isDropFolder }] as const] : [],
    );
  });
  return seen.length === 0 ? before : new Map([...before, ...seen]);
}

/** What a preload lost its medium by, and what makes it go on. */
export function interruption(title: string, progress: string, last: LastCarrier | undefined, media: readonly Medium[]) {
  const now = media.find(({ mediumId }) => mediumId === last?.mediumId);
  if (now?.state.kind === 'unmounted') {
    return `${now.label} was unmounted while preloading ${title} (${progress}). Plug it in again or run 'stickpin rescan' to continue.`;
  }
  if (last !== undefined && (last.isDropFolder || isFolder(last))) {
    const folder = last.isDropFolder ? 'the drop folder' : last.label;
    return `${title} was taken out of ${folder} while preloading (${progress}). Put it back, or plug in its stick, to continue.`;
  }
  return `Stick removed while preloading ${title} (${progress}). Plug it in again to continue.`;
}

/** What is told of a medium that somebody unmounted. */
export function unmountedMessage({ label }: Pick<Medium, 'label'>): string {
  return `${label} was unmounted; plug it in again or run 'stickpin rescan'`;
}

/** The label of a folder is its path. */
export function isFolder({ label }: Pick<Medium, 'label'>): boolean {
  return label.startsWith('/');
}
