import { chmod, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BundleReader } from '../bundle/read/bundle-reader.ts';
import { type BundleLayout, findBundles } from '../bundle/read/find-bundles.ts';
import { isBundleTar, openBundle } from '../bundle/read/open-bundle.ts';
import { type Digest, hexOf } from '../domain/model/digest.ts';
import type { MediumId, PeerState } from '../domain/model/medium.ts';
import type { Fault } from '../domain/model/reason.ts';
import { AppError, type Disposition } from '../platform/app-error.ts';
import type { MountEntry } from '../platform/files/mountinfo.ts';
import { quotedPath } from '../platform/plain-text.ts';
import type { BlobSource } from '../ports/blobs.ts';

/** True for `/dev/sdb1`, not for a folder in `/dev/shm`. Unreadable paths in `/dev` count. */
export async function isDevicePath(path: string): Promise<boolean> {
  if (!path.startsWith('/dev/')) return false;
  const stats = await stat(path).catch(() => undefined);
  return !(stats?.isDirectory() || stats?.isFile());
}

/** A directory, or one `.stickpin.tar` file, which somebody else mounts. */
export function folderMedium(
  mediumId: MediumId,
  path: string,
  layout: BundleLayout,
  isThere: () => Promise<boolean>,
): PluggedMedium {
  return {
    mediumId,
    label: path,
    isDropFolder: layout === 'folder',
    open: async () => openFolderMedium(path, layout),
    isThere,
    release: async () => undefined,
  };
}

/** `root`: a directory, or one `.stickpin.tar` file. */
export function openFolderMedium(root: string, layout: BundleLayout): OpenMedium {
  return {
    place: root,
    findBundles: async (signal) =>
      (await findBundles(root, layout, signal)).map((found) =>
        found.kind === 'bundle' ? bundleAt(root, found.path) : found,
      ),
  };
}

function bundleAt(root: string, path: string): MediumBundle {
  const reader = openBundle(join(root, path), root);
  return { kind: 'bundle', path, reader, blobs: reader, fileOf: (digest) => fileOf(path, digest) };
}

function fileOf(path: string, digest: Digest): string {
  const name = `blobs/sha256/${hexOf(digest)}`;
  return isBundleTar(path) ? `${name} in ${quotedPath(path)}` : quotedPath(join(path, name));
}

const DISPOSITIONS = {
  'media/gone': 'wait',
  'media/read': 'retry',
  'media/mount': 'retry',
  'media/filesystem': 'reject',
  'media/in-use': 'reject',
  'media/udev': 'retry',
  'media/load': 'reject',
} as const satisfies Readonly<Record<string, Disposition>>;

type MediaErrorCode = keyof typeof DISPOSITIONS;

export function mediaError(code: MediaErrorCode, message: string, cause?: unknown): AppError<MediaErrorCode> {
  return new AppError({ code, message, disposition: DISPOSITIONS[code], cause });
}

/** Both members may be the same object. */
export interface BundleAccess {
  /** Verification reads the bundle through it. */
  readonly reader: BundleReader;
  /** Served once the bundle is verified. */
  readonly blobs: BlobSource;
}

export interface ReadableBundle extends BundleAccess {
  readonly kind: 'bundle';
  /** The path on the medium, for display. Two bundles of one medium have different paths. */
  readonly path: string;
  /** The file for display. Absent when blobs are not files. */
  readonly fileOf?: (digest: Digest) => string;
}

/** A bundle, or something that looks like one but can't be read. */
export type MediumBundle =
  | ReadableBundle
  | { readonly kind: 'unreadable'; readonly path: string; readonly reason: Fault };

export interface OpenMedium {
  /** The place in the log: a mount point, a directory, an address. */
  readonly place: string;
  /** Reads no bundle. @throws AppError `media/read` (`retry`), `media/gone` (`wait`) */
  findBundles(signal: AbortSignal): Promise<readonly MediumBundle[]>;
}

/** It need not be a directory or on this machine. */
export interface PluggedMedium {
  readonly mediumId: MediumId;
  /** The name for display: `sdb1`, or the path of a directory. */
  readonly label: string;
  /** The drop folder always exists. An empty one is not reported. */
  readonly isDropFolder: boolean;
  /** Whether another node can be read now. Default: a medium of this node. */
  readonly peer?: () => PeerState;
  /** Another node gave wrong bytes. */
  distrusted?(): void;
  /** Another node gives too little. Leaves it out for a while. */
  tooSlow?(): void;
  /**
   * Mounts it if necessary. Idempotent.
   * @throws AppError `media/mount` (`retry`), `media/filesystem`, `media/in-use` (`reject`),
   *   `media/gone` (`wait`)
   */
  open(signal: AbortSignal): Promise<OpenMedium>;
  /** It is called after a read error, which precedes the signal that a stick was unplugged. */
  isThere(signal: AbortSignal): Promise<boolean>;
  /**
   * All mount points of the medium, with {@link OpenMedium.place}. Absent for media without mounts.
   */
  mountPoints?(mounts: readonly MountEntry[]): readonly string[];
  /** Unmounts an unplugged medium. Never throws. */
  release(): Promise<void>;
}

export interface MediaSink {
  arrived(medium: PluggedMedium): void;
  changed(mediumId: MediumId): void;
  left(mediumId: MediumId): void;
  /** Another node can give its blobs again, or can't for a while, or its queue has moved. */
  turned?(mediumId: MediumId): void;
  /** All media of the start have been reported. */
  listed?(): void;
}

export interface MediaProvider {
  /** Reports all present media, then each change. @throws AppError when it can't ever work */
  start(sink: MediaSink, signal: AbortSignal): Promise<void>;
  /** Whether all media of the start are reported. Absent when {@link start} waits for that. */
  isListed?(): boolean;
  rescan(signal: AbortSignal): Promise<void>;
  /**
   * Adds a medium by its path, and returns its label. It is undefined when it is of another kind.
   * @throws AppError `media/load` (`reject`) with the reason
   */
  load?(path: string, signal: AbortSignal): Promise<string | undefined>;
  dispose(): Promise<void>;
}

/** Only its owner gets access, with any umask, also if the folder exists. @throws system errors */
export async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}
