import type { Stats } from 'node:fs';
import { mkdir, readdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, systemCodeOf } from '../../../platform/app-error.ts';
import { formatBytes } from '../../../platform/sizes.ts';
import { blobError } from '../write-error.ts';

/**
 * A blob up to this size is read whole, and checked at each read. A larger one is an attachment: it
 * is streamed, and checked when it is read from its beginning to its end.
 */
export const SMALL_BYTES = 16 * 1024 * 1024;

/** Undefined when it is absent. @throws AppError `store/blob` */
export async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw blobError(path, 'read', error);
  }
}

/** Undefined for a small file and for none. */
export async function largeSizeOf(path: string): Promise<number | undefined> {
  const size = (await statsOf(path))?.size;
  return size !== undefined && size > SMALL_BYTES ? size : undefined;
}

/**
 * @throws AppError `store/no-space`, `store/blob` (`retry`) when `sizeBytes` more don't leave
 * `minFreePercent` of the filesystem free
 */
export async function requireRoom(folder: string, sizeBytes: number, minFreePercent: number): Promise<void> {
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw blobError(folder, 'made', error);
  });
  const { bavail, blocks, bsize } = await statfs(folder);
  const reservedBytes = (blocks * bsize * minFreePercent) / 100;
  if (bavail * bsize - sizeBytes >= reservedBytes) return;
  const need = `needs ${formatBytes(sizeBytes)}, ${formatBytes(bavail * bsize)} are free of which ${formatBytes(reservedBytes)} are reserved`;
  throw new AppError({
    code: 'store/no-space',
    message: `Not enough space in ${folder} for an attachment: it ${need}. Make room; it continues automatically`,
    disposition: 'retry',
  });
}

/** Removes what a crash has left half-written. Never throws: the next start removes the rest. */
export async function sweepStaged(folder: string, staging: ReadonlySet<string>): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const left = names.filter((name) => /^\.[0-9a-f]{64}\.[0-9a-f]{8}$/.test(name) && !staging.has(name));
  for (const name of left) await rm(join(folder, name), { force: true }).catch(() => undefined);
}
