/** How one filesystem is mounted. `type` as the kernel names it; `options` beside those that every medium gets. */
interface FilesystemMount {
  readonly type: string;
  readonly options: readonly string[];
}

/** A medium is data: nothing on it is run, is a device, changes who one is, or leads elsewhere. */
const EVERY_MEDIUM = ['ro', 'nosuid', 'nodev', 'noexec', 'nosymfollow'];

/**
 * The filesystems that are read, by udev's `ID_FS_TYPE`. A journal is not replayed: that would write to the medium, and fails on one that is
 * write-protected.
 */
const FILESYSTEMS: Readonly<Record<string, FilesystemMount>> = {
  vfat: { type: 'vfat', options: [] },
  exfat: { type: 'exfat', options: [] },
  ext2: { type: 'ext2', options: [] },
  ext3: { type: 'ext3', options: ['noload'] },
  ext4: { type: 'ext4', options: ['noload'] },
  // A copy of a stick has the same UUID, which xfs refuses to mount twice.
  xfs: { type: 'xfs', options: ['norecovery', 'nouuid'] },
  btrfs: { type: 'btrfs', options: ['rescue=nologreplay'] },
  f2fs: { type: 'f2fs', options: ['norecovery'] },
  ntfs: { type: 'ntfs3', options: [] },
  iso9660: { type: 'iso9660', options: [] },
  udf: { type: 'udf', options: [] },
  squashfs: { type: 'squashfs', options: [] },
  erofs: { type: 'erofs', options: [] },
};

/** How a medium with this `ID_FS_TYPE` is mounted, read-only; undefined when it is not read. */
export function filesystemMount(idFsType: string): { readonly type: string; readonly options: string } | undefined {
  const known = Object.hasOwn(FILESYSTEMS, idFsType) ? FILESYSTEMS[idFsType] : undefined;
  return known && { type: known.type, options: [...EVERY_MEDIUM, ...known.options].join(',') };
}

/** Names of the filesystems that are read, for messages. */
export const readableFilesystems: readonly string[] = Object.keys(FILESYSTEMS);
