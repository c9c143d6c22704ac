import { lstat, mkdir, open, readFile, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemCodeOf } from '../app-error.ts';

/** A file that another program may read while it is replaced. */
export interface DurableFile {
  readonly path: string;
  /** Where the new content is staged: on the same mount, and outside any directory that is watched. Default: the file's own directory. */
  readonly stagingDirectory?: string;
}

const MODE = 0o644;

/**
 * Makes `content` the content of the file: staged, synced, renamed over it, mode 0644, so that a reader sees the old or the new one and a power
 * cut leaves one of them. Missing directories are made. A file that is as wanted already isn't touched.
 *
 * @returns whether anything was written.
 * @throws system errors as they are
 */
export async function replaceFile(file: DurableFile, content: string | Buffer): Promise<boolean> {
  const directory = dirname(file.path);
  const { stagingDirectory = directory } = file;
  if (await isAsWanted(file.path, content)) return false;
  await mkdir(directory, { recursive: true });
  await mkdir(stagingDirectory, { recursive: true });
  const staged = join(stagingDirectory, `.${basename(file.path)}.stickpin-new`);
  await writeSynced(staged, content);
  await rename(staged, file.path);
  await syncDirectory(directory);
  return true;
}

/** The text of a file, or undefined when there is none. @throws the system's error otherwise. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(ignoreAbsent);
}

/** Makes the names in a directory outlive a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function isAsWanted(path: string, content: string | Buffer): Promise<boolean> {
  const stat = await lstat(path).catch(ignoreAbsent);
  if (stat === undefined || !stat.isFile() || (stat.mode & 0o7777) !== MODE) return false;
  return (await readFile(path)).equals(Buffer.from(content));
}

async function writeSynced(path: string, content: string | Buffer): Promise<void> {
  const handle = await open(path, 'w', MODE);
  try {
    await handle.chmod(MODE); // the umask may have taken bits away
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (systemCodeOf(error) !== 'ENOENT') throw error;
}
