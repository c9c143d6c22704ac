/** One mount of proc_pid_mountinfo(5). */
export interface MountEntry {
  /** `major:minor` of the device, as st_dev has it. */
  readonly device: string;
  /** The mounted part of the filesystem; `/` for all of it. */
  readonly root: string;
  readonly mountPoint: string;
  readonly type: string;
  /** For example `/dev/sdb1`, or any name for filesystems without a device. */
  readonly source: string;
  /** Options of the filesystem, the same for all its mounts: `rw`, `errors=remount-ro`. */
  readonly superOptions: readonly string[];
}

/**
 * The mounts in the text of `/proc/self/mountinfo`; later mounts cover earlier ones. Lines that
 * can't be parsed are skipped.
 */
export function parseMountinfo(text: string): readonly MountEntry[] {
  return text.split('\n').flatMap((line) => {
    const words = line.split(' ');
    const separator = words.indexOf('-', 6);
    const [device, root, mountPoint] = words.slice(2, 5);
    const [type, source, superOptions = ''] = words.slice(separator + 1);
    if (separator < 0 || device === undefined || root === undefined || mountPoint === undefined) return [];
    if (type === undefined || source === undefined) return [];
    return [
      {
        device,
        root: undoOctalEscapes(root),
        mountPoint: undoOctalEscapes(mountPoint),
        type,
        source: undoOctalEscapes(source),
        superOptions: superOptions.split(','),
      },
    ];
  });
}

/**
 * Undoes the octal escapes (`\040` for a space) that mountinfo and fstab share, one for each byte.
 */
export function undoOctalEscapes(text: string): string {
  return text.replace(/(?:\\[0-7]{3})+/g, (run) =>
    Buffer.from(
      run
        .split('\\')
        .slice(1)
        .map((octal) => Number.parseInt(octal, 8)),
    ).toString(),
  );
}
