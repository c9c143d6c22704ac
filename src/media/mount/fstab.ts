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

/** The udev property (`udevadm info`) for each kind of tag in fstab. */
const TAGS = {
  UUID: 'ID_FS_UUID',
  LABEL: 'ID_FS_LABEL',
  PARTUUID: 'ID_PART_ENTRY_UUID',
  PARTLABEL: 'ID_PART_ENTRY_NAME',
} as const;

/**
 * Whether one of fstab's `sources` names the device with these udev properties. UUIDs are compared
 * case-insensitively.
 */
export function isInFstab(
  sources: readonly string[],
  properties: Readonly<Record<string, string | undefined>>,
): boolean {
  const names = new Set([properties.DEVNAME, ...(properties.DEVLINKS?.split(' ') ?? [])]);
  return sources.some((source) => {
    const [, tag, value] = /^(UUID|LABEL|PARTUUID|PARTLABEL)=(.*)$/.exec(source) ?? [];
    if (tag === undefined || value === undefined) return names.has(source);
    const has = properties[TAGS[tag as keyof typeof TAGS]];
    const wanted = value.replace(/^"(.*)"$/, '$1');
    return has !== undefined && (tag.endsWith('UUID') ? has.toLowerCase() === wanted.toLowerCase() : has === wanted);
  });
}
