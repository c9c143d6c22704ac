import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { MountEntry } from './mountinfo.ts';

/**
 * Whether the kernel panics when it finds an error in a mounted filesystem. mountinfo omits the
 * defaults of a filesystem, also `errors=panic` from the superblock of an ext4. The options in
 * /proc/fs/ext4 are complete (ext4(5), "/proc/fs/ext4/<disk>/options").
 *
 * @returns undefined when it is not known: the kernel's separate driver for ext2 has the same gap
 *   and no such file
 * @param name the kernel's name of the device, for example `sdb1`
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
