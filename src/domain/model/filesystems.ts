/**
 * How one filesystem is mounted. `type` is the kernel's name; `options` are added to those of every
 * medium.
 */
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

/** The default of `media.filesystems`: what the common tools write to sticks and discs. */
export const defaultFilesystems: readonly string[] = ['vfat', 'exfat', 'ext4', 'iso9660', 'udf', 'squashfs'];

/** All names that `media.filesystems` may hold. */
export const knownFilesystems: readonly string[] = Object.keys(FILESYSTEMS);

/**
 * How a medium with this `ID_FS_TYPE` is mounted read-only. Undefined when no safe way is known.
 */
export function filesystemMount(idFsType: string): { readonly type: string; readonly options: string } | undefined {
  const known = Object.hasOwn(FILESYSTEMS, idFsType) ? FILESYSTEMS[idFsType] : undefined;
  return known && { type: known.type, options: [...EVERY_MEDIUM, ...known.options].join(',') };
}

/** Why a filesystem is not mounted. `allowed`: the setting `media.filesystems`. */
export interface FilesystemRefusal {
  /** `unknown`: no safe way to mount it is known. `off`: the setting does not name it. */
  readonly kind: 'unknown' | 'off';
  /** The value of `ID_FS_TYPE`. */
  readonly filesystem: string;
  readonly allowed: readonly string[];
}

/**
 * Why a medium with this `ID_FS_TYPE` is not mounted; undefined when it may be.
 *
 * @param allowed the setting `media.filesystems`
 */
export function filesystemRefusal(idFsType: string, allowed: readonly string[]): FilesystemRefusal | undefined {
  if (filesystemMount(idFsType) === undefined) return { kind: 'unknown', filesystem: idFsType, allowed };
  return allowed.includes(idFsType) ? undefined : { kind: 'off', filesystem: idFsType, allowed };
}
