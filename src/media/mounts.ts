import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type MountEntry, undoOctalEscapes } from '../platform/files/mountinfo.ts';

/**
 * Devices in fstab(5), as written: `/dev/sda2`, `UUID=…`, `LABEL=…`, `PARTUUID=…`, `PARTLABEL=…`.
 */
export function parseFstab(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const [source] = line.trim().split(/\s+/);
    return source === undefined || source === '' || source.startsWith('#') ? [] : [undoOctalEscapes(source)];
  });
}

/** udev encodes labels (systemd, udev-builtin-blkid.c). An `ID` is in links alone. */
const PROPERTIES = {
  UUID: ['ID_FS_UUID'],
  LABEL: ['ID_FS_LABEL_ENC', 'ID_FS_LABEL'],
  PARTUUID: ['ID_PART_ENTRY_UUID'],
  PARTLABEL: ['ID_PART_ENTRY_NAME'],
  ID: [],
} as const;

type Properties = Readonly<Record<string, string | undefined>>;

/** UUIDs are compared case-insensitively. `ID_FS_LABEL` has `_` for blanks. */
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

/** `\x20` for a space in udev's names, one for each byte. */
function undoHexEscapes(text: string): string {
  return text.replace(/(?:\\x[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('\\x', ''), 'hex').toString());
}

/**
 * Whether the kernel panics after an error in the filesystem. mountinfo omits defaults, also
 * `errors=panic` from the superblock of an ext4. The options in /proc/fs/ext4 are complete
 * (ext4(5), "/proc/fs/ext4/<disk>/options").
 * @returns undefined when it is not known: the separate driver for ext2 has the same gap and no
 *   such file
 * @param name of the device, for example `sdb1`
 * @param ext4 `/proc/fs/ext4`
 */
export async function panicsOnError(
  { type, superOptions }: MountEntry,
  name: string,
  ext4: string,
): Promise<boolean | undefined> {
  if (superOptions.includes('errors=panic')) return true;
  if (!/^ext[234]$/.test(type)) return false;
  const options = await readFile(join(ext4, name, 'options'), 'utf8').catch(() => undefined);
  return options?.split('\n').includes('errors=panic');
}
