import type { VerifiedBundle } from './bundle.ts';
import type { BundleId, Digest } from './digest.ts';
import type { Fault, QueuePlace } from './reason.ts';

/**
 * One plugging-in of one medium: `7-sdb1` (DISKSEQ and kernel name), or `dir:/path` for a
 * directory.
 */
export type MediumId = string;

/**
 * `absent`: no such file; `truncated`: the file has another size; `damaged`: its bytes have another
 * digest.
 */
export interface FaultyBlob {
  readonly digest: Digest;
  readonly why: 'absent' | 'truncated' | 'damaged';
}

/** A missing or bad blob of a directory, or one in the base of a delta. */
export type MissingBlob = FaultyBlob | { readonly digest: Digest; readonly why: 'in-base' };

export function isFaulty(blob: MissingBlob): blob is FaultyBlob {
  return blob.why !== 'in-base';
}

export type FoundBundle =
  | {
      readonly kind: 'verified';
      /** Relative to the medium's root, for people. */
      readonly path: string;
      readonly bundle: VerifiedBundle;
      /** Manifests, indexes and configs of all images: what the local blob store keeps. */
      readonly documents: readonly Digest[];
      /**
       * Blobs of the bundle that this directory lacks (a volume of a larger bundle, or a bad copy).
       */
      readonly missing: readonly MissingBlob[];
      /** It carries no layers: its images come from their own registries. */
      readonly isEnvelope?: boolean;
    }
  /**
   * No trusted key signed it, and its digest may still be approved. Only the envelope was parsed,
   * so it has no name.
   */
  | { readonly kind: 'unapproved'; readonly path: string; readonly bundleId: BundleId }
  | { readonly kind: 'rejected'; readonly path: string; readonly reason: Fault };

export type MediumState =
  | { readonly kind: 'attached' }
  | { readonly kind: 'mounted' }
  | {
      readonly kind: 'read';
      readonly bundles: readonly FoundBundle[];
      readonly trustRevision: string;
      /** Another node offers something else now. Its former offer is used until that was read. */
      readonly isStale?: true;
    }
  | { readonly kind: 'failed'; readonly reason: Fault }
  /** It is plugged in, but a person unmounted it. It is mounted again only on request. */
  | { readonly kind: 'unmounted' };

/** Whether another node can give what it offers. */
export interface PeerState {
  /** False while it serves others, or after it did not answer. A request follows then. */
  readonly isReady: boolean;
  /** It has given nothing since it failed: others come first. */
  readonly hasFailed?: true;
  /** The place of this node in its queue, when it reported that. */
  readonly queue?: QueuePlace;
}

export interface Medium {
  readonly mediumId: MediumId;
  /** For people: `sdb1`, or the path of a directory. */
  readonly label: string;
  /** The drop folder always exists; an empty one is nothing to report. */
  readonly isDropFolder: boolean;
  /** The offer of another node: no medium that was plugged in. */
  readonly peer?: PeerState;
  readonly state: MediumState;
  /**
   * It is being mounted or read, or waits after a failure. Until that has ended its state is the
   * earlier one.
   */
  readonly isBusy?: boolean;
}

/** `type` is the kernel's name; `options` are added to those of every medium. */
interface FilesystemMount {
  readonly type: string;
  readonly options: readonly string[];
}

/** A medium is only data: no programs, devices, set-user-ID bits, or links. */
const EVERY_MEDIUM = ['ro', 'nosuid', 'nodev', 'noexec', 'nosymfollow'];

/** Files without owners belong to root, and no other user may read them. */
const ROOT_ONLY = ['uid=0', 'gid=0', 'fmask=0177', 'dmask=0077'];

/**
 * An ext4 superblock names mount options of its own: what to do at an error (`s_errors`, `panic`
 * among the choices) and any other ones (`s_mount_opts`). Options of the mount win over both
 * (ext4(5)). ext2 and ext3 are mounted by the same driver.
 */
const EXT4: FilesystemMount = {
  type: 'ext4',
  options: ['noload', 'errors=remount-ro', 'nowarn_on_error', 'nodiscard'],
};

/**
 * The filesystems that can be mounted, by udev's `ID_FS_TYPE`. A journal is not replayed: that
 * would write to the medium, and fails on one that is write-protected. Wherever the kernel knows
 * the option `errors=panic`, the options name another choice, so that no medium makes it.
 */
const FILESYSTEMS: Readonly<Record<string, FilesystemMount>> = {
  vfat: { type: 'vfat', options: ['errors=remount-ro', ...ROOT_ONLY] },
  exfat: { type: 'exfat', options: ['errors=remount-ro', ...ROOT_ONLY] },
  ext4: EXT4,
  iso9660: { type: 'iso9660', options: [] },
  udf: { type: 'udf', options: ['uid=0', 'gid=0', 'umask=0077'] },
  // Its superblock can't ask for a panic, and kernels before 5.14 refuse the option errors=.
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

/** What the common tools write to sticks and discs. */
export const defaultFilesystems: readonly string[] = ['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs'];

export const knownFilesystems: readonly string[] = Object.keys(FILESYSTEMS);

/** Read-only, by `ID_FS_TYPE`. Undefined when no safe way is known. */
export function filesystemMount(idFsType: string): { readonly type: string; readonly options: string } | undefined {
  const known = Object.hasOwn(FILESYSTEMS, idFsType) ? FILESYSTEMS[idFsType] : undefined;
  return known && { type: known.type, options: [...EVERY_MEDIUM, ...known.options].join(',') };
}

/** `allowed`: the setting `media.filesystems`. */
export interface FilesystemRefusal {
  /** `unknown`: no safe way to mount it is known. `off`: the setting does not name it. */
  readonly kind: 'unknown' | 'off';
  /** The value of `ID_FS_TYPE`. */
  readonly filesystem: string;
  readonly allowed: readonly string[];
}

/**
 * Undefined when it may be mounted.
 *
 * @param allowed the setting `media.filesystems`
 */
export function filesystemRefusal(idFsType: string, allowed: readonly string[]): FilesystemRefusal | undefined {
  if (filesystemMount(idFsType) === undefined) return { kind: 'unknown', filesystem: idFsType, allowed };
  return allowed.includes(idFsType) ? undefined : { kind: 'off', filesystem: idFsType, allowed };
}
