import { createReadStream } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import { systemCodeOf } from '../../../platform/app-error.ts';

/** A file of a layer, as the storage has recorded it (vbatts/tar-split, tar/storage, Entry). */
interface FileEntry {
  readonly type: number;
  readonly name?: string;
  readonly size?: number;
}

/** `type` of an entry that is a member of the archive. Others are its headers. */
const FILE = 1;
/** Longest line of the record. Those of files are short; others are headers of the archive. */
const MAX_LINE = 64 * 1024;

/** A file that is not as it was unpacked. */
export interface LostFile {
  /** Relative to the root of the layer. */
  readonly name: string;
  readonly why: 'absent' | 'truncated';
}

/**
 * The first file of an unpacked layer that is absent or has another size than when it was unpacked,
 * as after a power cut. Bytes are not read. Undefined when there is none, or when the layer has no
 * record of its files.
 *
 * @param record as `overlay-layers/ID.tar-split.gz`
 * @param folder where the layer is unpacked
 * @throws system errors and those of zlib when the record can't be read
 */
export async function findLostFile(record: string, folder: string, signal: AbortSignal): Promise<LostFile | undefined> {
  // What comes later in a layer takes the place of an earlier file of this name.
  const lost = new Map<string, LostFile>();
  try {
    const file = createReadStream(record, { signal });
    const text = file.pipe(createGunzip());
    file.on('error', (error) => text.destroy(error));
    for await (const line of createInterface({ input: text, crlfDelay: Number.POSITIVE_INFINITY })) {
      const entry = line.length > MAX_LINE ? undefined : (JSON.parse(line) as FileEntry);
      if (entry?.type !== FILE || entry.name === undefined || isOutside(entry.name)) continue;
      const found = await lookAt(folder, entry.name, entry.size ?? 0);
      if (found === undefined) lost.delete(entry.name);
      else lost.set(entry.name, found);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  return lost.values().next().value;
}

function isOutside(name: string): boolean {
  return name.split('/').includes('..');
}

/** Only members with content are looked at: others may be links, folders or marks of a removal. */
async function lookAt(folder: string, name: string, size: number): Promise<LostFile | undefined> {
  if (size === 0) return undefined;
  const path = join(folder, name);
  try {
    const found = await lstat(path);
    if (!found.isFile() || found.size === size || !(await isInPlace(folder, path))) return undefined;
    return { name, why: 'truncated' };
  } catch (error) {
    const isGone = systemCodeOf(error) === 'ENOENT' && (await isInPlace(folder, path));
    return isGone ? { name, why: 'absent' } : undefined;
  }
}

/** Whether no link leads to another folder. A later entry may have made a folder a link. */
async function isInPlace(folder: string, path: string): Promise<boolean> {
  try {
    const [root, parent] = await Promise.all([realpath(folder), realpath(dirname(path))]);
    return join(root, dirname(path).slice(folder.length)) === parent;
  } catch (error) {
    // The folder of the file is gone, too.
    return systemCodeOf(error) === 'ENOENT';
  }
}
