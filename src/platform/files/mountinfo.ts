/** See proc_pid_mountinfo(5). */
export interface MountEntry {
  /** `major:minor`, as st_dev. */
  readonly device: string;
  /** The mounted part of the filesystem; `/` for all of it. */
  readonly root: string;
  readonly mountPoint: string;
  readonly type: string;
  /** `/dev/sdb1`, or any name for filesystems without a device. */
  readonly source: string;
  /** Options of the filesystem, the same for all its mounts: `rw`, `errors=remount-ro`. */
  readonly superOptions: readonly string[];
}

/** Later mounts cover earlier ones. Lines that can't be parsed are skipped. */
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

/** `\040` for a space in mountinfo and fstab, one for each byte. */
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
