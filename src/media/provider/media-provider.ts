import type { BundleLayout } from '../../bundle/read/find-bundles.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { MountEntry } from '../mount/mountinfo.ts';

/** Codes of errors of the room media. */
export type MediaErrorCode =
  | 'media/gone'
  | 'media/read'
  | 'media/mount'
  | 'media/filesystem'
  | 'media/in-use'
  | 'media/udev'
  | 'media/load'
  | 'media/no-blob';

/** One plugged-in medium, as its provider hands it over. */
export interface PluggedMedium {
  readonly mediumId: MediumId;
  /** What people call it: `sdb1`, or the path of a directory. */
  readonly label: string;
  readonly layout: BundleLayout;
  /**
   * Makes the medium readable and resolves to the directory that is its root. Idempotent.
   *
   * @throws AppError `media/mount` (`retry`), `media/filesystem`, `media/in-use` (`reject`), `media/gone` (`wait`)
   */
  mount(signal: AbortSignal): Promise<string>;
  /** Whether the medium is still there. Asked after a read error, which comes before the news of a pulled stick. */
  isThere(signal: AbortSignal): Promise<boolean>;
  /** Where it is mounted as a whole, of all mounts there are. Absent on media that are not mounted by themselves. */
  mountPoints?(mounts: readonly MountEntry[]): readonly string[];
  /** Releases what {@link mount} took, after the medium left. Never throws. */
  release(): Promise<void>;
}

/** Where a provider reports to. */
export interface MediaSink {
  arrived(medium: PluggedMedium): void;
  /** What is on the medium is not what it was. */
  changed(mediumId: MediumId): void;
  left(mediumId: MediumId): void;
  /** All that was there at the start has been reported. */
  lookedAt?(): void;
}

/** Finds one sort of media. */
export interface MediaProvider {
  /** Reports what is there and from then on what comes, changes and goes. @throws AppError when it can't ever work. */
  start(sink: MediaSink, signal: AbortSignal): Promise<void>;
  /** Whether all that was there at the start has been reported; absent where {@link start} waits for that. */
  isLookedAt?(): boolean;
  /** Looks at everything again. */
  rescan(signal: AbortSignal): Promise<void>;
  /**
   * Takes a medium that somebody named, and returns its label; undefined when this sort is not this provider's.
   *
   * @throws AppError `media/load` (`reject`) that says why it can't be taken
   */
  load?(path: string, signal: AbortSignal): Promise<string | undefined>;
  dispose(): Promise<void>;
}
