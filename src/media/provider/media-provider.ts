import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { BlobSource } from '../../ports/blobs.ts';
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

/**
 * Read access to one bundle of a medium. Both may be the same object; a peer may answer them in
 * different ways.
 */
export interface BundleAccess {
  /** Reads the bundle's documents while it is judged. */
  readonly reader: BundleReader;
  /** The blobs of the bundle. They are served once the bundle is verified. */
  readonly blobs: BlobSource;
}

/** A bundle that a medium holds. */
export interface ReadableBundle extends BundleAccess {
  readonly kind: 'bundle';
  /** Where it lies on the medium, for people. Two bundles of one medium have different paths. */
  readonly path: string;
  /** The file of a blob on the medium, for people. Absent where blobs are no files. */
  readonly fileOf?: (digest: Digest) => string;
}

/** What a medium holds: bundles, and what looks like a bundle but can't be read. */
export type MediumBundle =
  | ReadableBundle
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Fault };

/** A medium that can be read. */
export interface OpenMedium {
  /** Where it is read, for the log: a mount point, a directory, an address. */
  readonly place: string;
  /**
   * Looks for bundles on it. Opening a bundle reads nothing of it yet.
   *
   * @throws AppError `media/read` (`retry`), `media/gone` (`wait`)
   */
  findBundles(signal: AbortSignal): Promise<readonly MediumBundle[]>;
}

/**
 * One plugged-in medium, as its provider hands it over. It need not be a directory, nor on this
 * machine.
 */
export interface PluggedMedium {
  readonly mediumId: MediumId;
  /** What people call it: `sdb1`, or the path of a directory. */
  readonly label: string;
  /** It is the drop folder: always there, so that it is no news when it is empty. */
  readonly isDropFolder: boolean;
  /**
   * Makes the medium readable; mounts it, where it is one to be mounted. Idempotent.
   *
   * @throws AppError `media/mount` (`retry`), `media/filesystem`, `media/in-use` (`reject`),
   *   `media/gone` (`wait`)
   */
  open(signal: AbortSignal): Promise<OpenMedium>;
  /**
   * Whether the medium is still there. Asked after a read error, which comes before the news of a
   * pulled stick.
   */
  isThere(signal: AbortSignal): Promise<boolean>;
  /**
   * Where the whole medium is mounted, of all mounts there are; {@link OpenMedium.place} is one of
   * these places. Absent on media that are not mounted by themselves.
   */
  mountPoints?(mounts: readonly MountEntry[]): readonly string[];
  /** Releases what {@link open} took, after the medium left. Never throws. */
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
  /**
   * Reports what is there and from then on what comes, changes and goes. @throws AppError when it
   * can't ever work.
   */
  start(sink: MediaSink, signal: AbortSignal): Promise<void>;
  /**
   * Whether all that was there at the start has been reported; absent where {@link start} waits for
   * that.
   */
  isLookedAt?(): boolean;
  /** Looks at everything again. */
  rescan(signal: AbortSignal): Promise<void>;
  /**
   * Takes a medium that somebody named, and returns its label; undefined when this sort is not this
   * provider's.
   *
   * @throws AppError `media/load` (`reject`) that says why it can't be taken
   */
  load?(path: string, signal: AbortSignal): Promise<string | undefined>;
  dispose(): Promise<void>;
}
