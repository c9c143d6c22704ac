import { undoOctalEscapes } from './mountinfo.ts';

/**
 * The devices in the first column of fstab(5), as written: `/dev/sda2`, `UUID=…`, `LABEL=…`,
 * `PARTUUID=…`, `PARTLABEL=…`.
 */
export function parseFstab(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const [source] = line.trim().split(/\s+/);
    return source === undefined || source === '' || source.startsWith('#') ? [] : [undoOctalEscapes(source)];
  });
}

/**
 * The udev properties (`udevadm info`) with the value of each kind of tag in fstab. udev encodes
 * labels, and `ID_FS_LABEL` has `_` in place of blanks (systemd, udev-builtin-blkid.c). An `ID` is
 * in links alone.
 */
const PROPERTIES = {
  UUID: ['ID_FS_UUID'],
  LABEL: ['ID_FS_LABEL_ENC', 'ID_FS_LABEL'],
  PARTUUID: ['ID_PART_ENTRY_UUID'],
  PARTLABEL: ['ID_PART_ENTRY_NAME'],
  ID: [],
} as const;

/** Properties of a device as udev gives them, encoded. */
type Properties = Readonly<Record<string, string | undefined>>;

/**
 * Whether one of fstab's `sources` names the device with these udev properties. UUIDs are compared
 * case-insensitively. A label counts too as `ID_FS_LABEL` has it, with `_` for blanks.
 */
export function isInFstab(sources: readonly string[], properties: Properties): boolean {
  const links = properties.DEVLINKS?.split(' ') ?? [];
  return sources.some((source) => {
    const [, tag, value] = /^(UUID|LABEL|PARTUUID|PARTLABEL|ID)=(.+)$/.exec(source) ?? [];
    if (tag === undefined || value === undefined) return source === properties.DEVNAME || links.includes(source);
    const folder = `/dev/disk/by-${tag.toLowerCase()}/`;
    const names = [
      ...PROPERTIES[tag as keyof typeof PROPERTIES].flatMap((name) => properties[name] ?? []),
      ...links.filter((link) => link.startsWith(folder)).map((link) => link.slice(folder.length)),
    ];
    const inOneCase = (text: string) => (tag.endsWith('UUID') ? text.toLowerCase() : text);
    const wanted = inOneCase(value.replace(/^(["'])(.*)\1$/, '$2'));
    return names.some((name) => inOneCase(undoHexEscapes(name)) === wanted);
  });
}

/** Undoes the escapes (`\x20` for a space) of udev's names, one for each byte. */
function undoHexEscapes(text: string): string {
  return text.replace(/(?:\\x[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('\\x', ''), 'hex').toString());
}
