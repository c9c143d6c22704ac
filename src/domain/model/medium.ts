import type { VerifiedBundle } from './bundle.ts';
import type { BundleId, Digest } from './digest.ts';
import type { Fault, QueuePlace } from './reason.ts';

/** One insertion of one medium: `7-sdb1` (DISKSEQ and kernel name), or `dir:/path`. */
export type MediumId = string;

/** `truncated` means that the file has another size. `damaged` means another digest. */
export interface FaultyBlob {
  readonly digest: Digest;
  readonly why: 'absent' | 'truncated' | 'damaged';
}

export type MissingBlob = FaultyBlob | { readonly digest: Digest; readonly why: 'in-base' };

export function isFaulty(blob: MissingBlob): blob is FaultyBlob {
  return blob.why !== 'in-base';
}

export type FoundBundle =
  | {
      readonly kind: 'verified';
      /** The path relative to the medium's root, for people. */
      readonly path: string;
      readonly bundle: VerifiedBundle;
      /** Manifests, indexes and configs of all images. */
      readonly documents: readonly Digest[];
      /** Blobs that this directory lacks (a volume of a larger bundle, or a bad copy). */
      readonly missing: readonly MissingBlob[];
      /** The bundle carries no layers: its images come from their own registries. */
      readonly isEnvelope?: boolean;
    }
  /** No trusted key signed it, and its digest may still be approved. Its name is not read. */
  | { readonly kind: 'unapproved'; readonly path: string; readonly bundleId: BundleId }
  | { readonly kind: 'rejected'; readonly path: string; readonly reason: Fault };

export type MediumState =
  | { readonly kind: 'attached' }
  | { readonly kind: 'mounted' }
  | {
      readonly kind: 'read';
      readonly bundles: readonly FoundBundle[];
      readonly trustRevision: string;
      /** Another node offers something else now. Its former offer counts until that was read. */
      readonly isStale?: true;
    }
  | { readonly kind: 'failed'; readonly reason: Fault }
  /** A person unmounted the medium. It is mounted again only on request. */
  | { readonly kind: 'unmounted' };

export interface PeerState {
  /** False while the node serves others, or after it did not answer. A request follows. */
  readonly isReady: boolean;
  /** The node has given nothing since it failed, so others come first. */
  readonly hasFailed?: true;
  readonly queue?: QueuePlace;
}

export interface Medium {
  readonly mediumId: MediumId;
  /** `sdb1`, or the path of a directory, for people. */
  readonly label: string;
  /** The drop folder always exists; an empty one is not reported. */
  readonly isDropFolder: boolean;
  readonly peer?: PeerState;
  readonly state: MediumState;
  /** It is being mounted or read, or waits after a failure. The state is the earlier one. */
  readonly isBusy?: boolean;
}

/** `type` is the kernel's name. `options` are added to those of every medium. */
interface FilesystemMount {
  readonly type: string;
  readonly options: readonly string[];
}

/** A medium is only data: no programs, devices, set-user-ID bits, or links. */
const EVERY_MEDIUM = ['ro', 'nosuid', 'nodev', 'noexec', 'nosymfollow'];

/** Files without owners belong to root, and no other user may read them. */
const ROOT_ONLY = ['uid=0', 'gid=0', 'fmask=0177', 'dmask=0077'];

/**
 * An ext4 superblock names its own mount options: what to do at an error (`s_errors`, such as
 * `panic`) and others (`s_mount_opts`). Options of the mount win over both (ext4(5)). The same
 * driver mounts ext2 and ext3.
 */
const EXT4: FilesystemMount = {
  type: 'ext4',
  options: ['noload', 'errors=remount-ro', 'nowarn_on_error', 'nodiscard'],
};

/**
 * Keys are udev's `ID_FS_TYPE`. A journal is not replayed: that would write to the medium, and
 * fails on a write-protected one. Where the kernel knows `errors=panic`, the options name another
 * choice, so that no medium makes the kernel panic.
 */
const FILESYSTEMS: Readonly<Record<string, FilesystemMount>> = {
  vfat: { type: 'vfat', options: ['errors=remount-ro', ...ROOT_ONLY] },
  exfat: { type: 'exfat', options: ['errors=remount-ro', ...ROOT_ONLY] },
  ext4: EXT4,
  iso9660: { type: 'iso9660', options: [] },
  udf: { type: 'udf', options: ['uid=0', 'gid=0', 'umask=0077'] },
  // Its superblock can't request a panic, and kernels before 5.14 refuse the option errors=.
  squashfs: { type: 'squashfs', options: [] },
  ext2: EXT4,
  ext3: EXT4,
  // A copy of a stick has the same UUID, which xfs refuses to mount twice.
  xfs: { type: 'xfs', options: ['norecovery', 'nouuid'] },
  btrfs: { type: 'btrfs', options: ['rescue=nologreplay'] },
  f2fs: { type: 'f2fs', options: ['norecovery'] },
  ntfs: { type: 'ntfs3', options: ROOT_ONLY },
  erofs: { type: 'erofs', options: [] },
};

/** The common tools write these to sticks and discs. */
export const defaultFilesystems: readonly string[] = ['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs'];

export const knownFilesystems: readonly string[] = Object.keys(FILESYSTEMS);

/** Mounts read-only. @returns undefined when no safe way is known */
export function filesystemMount(idFsType: string): { readonly type: string; readonly options: string } | undefined {
  const known = Object.hasOwn(FILESYSTEMS, idFsType) ? FILESYSTEMS[idFsType] : undefined;
  return known && { type: known.type, options: [...EVERY_MEDIUM, ...known.options].join(',') };
}

export interface FilesystemRefusal {
  /** `unknown`: no safe way to mount it is known. `off`: the setting does not name it. */
  readonly kind: 'unknown' | 'off';
  readonly filesystem: string;
  readonly allowed: readonly string[];
}

/** @param allowed the setting `media.filesystems` */
export function filesystemRefusal(idFsType: string, allowed: readonly string[]): FilesystemRefusal | undefined {
  if (filesystemMount(idFsType) === undefined) return { kind: 'unknown', filesystem: idFsType, allowed };
  return allowed.includes(idFsType) ? undefined : { kind: 'off', filesystem: idFsType, allowed };
}
