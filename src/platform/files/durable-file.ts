import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemCodeOf } from '../app-error.ts';
import { NEVER_ABORTED } from '../async/abort.ts';

/** A file that another program may read while it is replaced. */
export interface DurableFile {
  readonly path: string;
  /**
   * Directory for the staged content: on the same mount, and not in a watched directory. Default:
   * the directory of the file.
   */
  readonly stagingDirectory?: string;
  /**
   * The file need not survive a power cut, for example in `/run`: nothing is synced. A reader still
   * sees the old or the new content. Default false.
   */
  readonly isVolatile?: boolean;
  /** Default 0644. */
  readonly mode?: number;
}

const MODE = 0o644;
const LARGE_BYTES = 1024 * 1024;
/** Opens a path that was a file before: it follows no link and waits for no pipe. */
const SAME = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Replaces the content of a file: the new content is staged, synced and renamed over it, with its
 * mode. A reader sees the old or the new content, and one of them survives a power cut. Missing
 * directories are made. A file that has this content and mode already isn't touched. An abort
 * before the rename leaves the old content; after it the new content is made durable. No link is
 * followed, whoever may write the folder: see {@link othersMayWrite}.
 *
 * @returns whether the file was written
 * @throws system errors as they are
 */
export async function replaceFile(
  file: DurableFile,
  content: string | Buffer,
  signal: AbortSignal = NEVER_ABORTED,
): Promise<boolean> {
  const directory = dirname(file.path);
  const { stagingDirectory = directory, isVolatile = false, mode = MODE } = file;
  signal.throwIfAborted();
  if (!unsynced.has(file.path) && (await isAsWanted(file.path, content, mode))) return false;
  const make = isVolatile ? (path: string) => mkdir(path, { recursive: true }) : makeFolder;
  await make(directory);
  await make(stagingDirectory);
  const suffix = (await othersMayWrite(stagingDirectory)) ? `-${randomUUID()}` : '';
  const staged = join(stagingDirectory, `.${basename(file.path)}.stickpin-new${suffix}`);
  const write = async (handle: FileHandle) => {
    await handle.chmod(mode); // the umask may have removed bits
    await handle.writeFile(content);
  };
  // A crash may leave a file with this name, or another program may have created it.
  await rm(staged, { recursive: true, force: true });
  try {
    await writeThrough(staged, mode, write, isVolatile ? Number.POSITIVE_INFINITY : 0);
    signal.throwIfAborted();
    if (!isVolatile) unsynced.add(file.path);
    await rename(staged, file.path);
  } catch (error) {
    if (suffix !== '') await rm(staged, { force: true }).catch(() => undefined);
    throw error;
  }
  if (!isVolatile) await syncFolder(directory);
  unsynced.delete(file.path);
  return true;
}

/**
 * Files whose new name may not be on the disk, since a sync failed. Their content is written again:
 * Linux does not sync the same change twice (fsync(2), "EIO").
 */
const unsynced = new Set<string>();

/**
 * Whether users other than root and our own may write a folder. They may put anything under any
 * name in it, at any time, and a sticky bit does not change that.
 */
async function othersMayWrite(folder: string): Promise<boolean> {
  const { mode, uid, gid } = await stat(folder);
  const isOurs = uid === 0 || uid === process.geteuid?.();
  const isOurGroup = gid === 0 || gid === process.getegid?.();
  return !isOurs || (mode & 0o002) !== 0 || ((mode & 0o020) !== 0 && !isOurGroup);
}

/** The options of {@link writeNewFile}. */
export interface NewFileOptions {
  /** Default 0644, without the bits of the umask. */
  readonly mode?: number;
  readonly signal?: AbortSignal;
}

/**
 * Writes a new file. Its bytes are on the disk when this resolves, its name after {@link
 * syncFolder} of its folder.
 *
 * @throws system errors as they are, `EEXIST` when there is a file already
 */
export async function writeNewFile(
  path: string,
  content: string | Uint8Array,
  { mode = MODE, signal }: NewFileOptions = {},
): Promise<void> {
  await writeThrough(path, mode, (file) => file.writeFile(content, { signal }));
}

/** {@link writeNewFile} with the content from `write`. @returns the result of `write` */
export async function fillNewFile<T>(path: string, write: (file: FileHandle) => Promise<T>): Promise<T> {
  return writeThrough(path, MODE, write);
}

/**
 * {@link fillNewFile} for one of many files of a folder that `syncTree()` brings to the disk at its
 * end: only a file of 1 MiB or more is synced here, so that a long write shows its progress.
 */
export async function fillTreeFile<T>(path: string, write: (file: FileHandle) => Promise<T>): Promise<T> {
  return writeThrough(path, MODE, write, LARGE_BYTES);
}

/** {@link fillTreeFile} with this content. */
export async function writeTreeFile(path: string, content: string | Uint8Array): Promise<void> {
  await fillTreeFile(path, (file) => file.writeFile(content));
}

/** {@link fillTreeFile} for a file that exists: gives it mode 0644. */
export async function keepTreeFile(path: string): Promise<void> {
  await withHandle(path, async (file) => {
    await file.chmod(MODE);
    if ((await file.stat()).size >= LARGE_BYTES) await file.sync();
  });
}

/**
 * The text of a file. Returns undefined when there is none. Never waits for a pipe. @throws the
 * system's error otherwise; {@link isNoFile} says whether the path is something else than a file
 */
export async function readIfPresent(path: string): Promise<string | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(ignoreAbsent);
  if (file === undefined) return undefined;
  try {
    if ((await file.stat()).isFile()) return await file.readFile('utf8');
    throw Object.assign(new Error(`${path} is not a file`), { code: NO_FILE });
  } finally {
    await file.close();
  }
}

/** BSD's code for it; Linux has none. */
const NO_FILE = 'EFTYPE';

/** Whether a file could not be opened since it is a folder, a pipe, a socket or a loop of links. */
export function isNoFile(error: unknown): boolean {
  return [NO_FILE, 'EISDIR', 'ENXIO', 'ELOOP'].includes(systemCodeOf(error) ?? '');
}

/**
 * Makes a folder and those around it that are missing. Their names are on the disk when this
 * resolves; those of folders that were there before may not be.
 *
 * @throws system errors as they are; then what was made is gone again, so that it is made anew
 */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const first = await mkdir(path, { recursive: true, ...(mode !== undefined && { mode }) });
  if (first === undefined) return;
  const made = foldersBetween(first, path);
  try {
    for (const folder of made) await syncFolder(dirname(folder));
  } catch (error) {
    for (const folder of made.reverse()) await rmdir(folder).catch(() => undefined); // the error above has the reason
    throw error;
  }
}

/** From `first` on, the folder at `path` last. */
function foldersBetween(first: string, path: string): string[] {
  const folders = [path];
  for (let at = path; at !== first && at !== dirname(at); at = dirname(at)) folders.unshift(dirname(at));
  return folders;
}

/**
 * Syncs the names in a folder to the disk.
 *
 * @throws system errors as they are, also those of filesystems that can't sync a folder
 */
export async function syncFolder(path: string): Promise<void> {
  await withHandle(path, (folder) => folder.sync());
}

/**
 * {@link syncFolder} for a path from a user. Does nothing if the filesystem can't sync a folder,
 * for example some FUSE filesystems.
 */
export async function syncFolderIfPossible(path: string): Promise<void> {
  await withHandle(path, (folder) =>
    folder.sync().catch((error: unknown) => {
      if (!['EINVAL', 'ENOTSUP', 'EPERM', 'ENOSYS'].includes(systemCodeOf(error) ?? '')) throw error;
    }),
  );
}

/**
 * Syncs the bytes of an existing file to the disk. @param mode new mode of the file; default:
 * unchanged
 */
export async function syncFile(path: string, mode?: number): Promise<void> {
  await withHandle(path, async (file) => {
    if (mode !== undefined) await file.chmod(mode);
    await file.sync();
  });
}

async function withHandle(path: string, use: (handle: FileHandle) => Promise<void>): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await use(handle);
  } finally {
    await handle.close();
  }
}

async function isAsWanted(path: string, content: string | Buffer, mode: number): Promise<boolean> {
  const stat = await lstat(path).catch(ignoreAbsent);
  if (stat === undefined || !stat.isFile() || (stat.mode & 0o7777) !== mode) return false;
  return (await readFile(path, { flag: SAME })).equals(Buffer.from(content));
}

async function writeThrough<T>(
  path: string,
  mode: number,
  write: (file: FileHandle) => Promise<T>,
  leastSyncedBytes = 0,
): Promise<T> {
  const file = await open(path, 'wx', mode);
  try {
    const result = await write(file);
    if (leastSyncedBytes === 0 || (await file.stat()).size >= leastSyncedBytes) await file.sync();
    return result;
  } finally {
    await file.close();
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (systemCodeOf(error) !== 'ENOENT') throw error;
}
