import { spawn } from 'node:child_process';
import type { Stats } from 'node:fs';
import { readdir, statfs } from 'node:fs/promises';
import { release } from 'node:os';
import { join } from 'node:path';
import type { FSWatcher } from 'chokidar';
import { reasonOf } from '../app-error.ts';
import { untilAborted } from '../async/abort.ts';
import { forEachLimited } from '../async/concurrency.ts';
import { syncFile, syncFolderIfPossible } from './durable-file.ts';

/** A buffer of `sizeBytes` or less, with old data. */
export type Allocate = (sizeBytes: number) => Buffer;

/** The consumer may keep it. */
export const newBuffer: Allocate = (sizeBytes) => Buffer.allocUnsafeSlow(sizeBytes);

/**
 * A chunk of the stream is valid until the next one is read. Short-lived large buffers cost more
 * than a copy: memory is mapped, cleared and collected for each.
 */
export function oneBuffer(): Allocate {
  let buffer: Buffer | undefined;
  return (sizeBytes) => {
    if (buffer === undefined || buffer.length < sizeBytes) buffer = newBuffer(sizeBytes);
    return buffer.subarray(0, sizeBytes);
  };
}

/**
 * `close()` of chokidar is not enough: running checks end later. One that finds the only watched
 * entry gone calls `add()` with the folder around it (seen with chokidar 5), and the process would
 * not end. One that fails emits `error` without a listener.
 */
export async function closeWatcher(watcher: FSWatcher): Promise<void> {
  watcher.add = () => watcher;
  const closed = watcher.close();
  watcher.on('error', () => undefined);
  await closed;
}

/** `who` begins with the path. */
interface OpenAccess {
  readonly message: string;
  readonly remedy: string;
}

/**
 * Who may write a path beside root and one user. Access control lists show in the group bits
 * (acl(5)). A sticky bit does not keep others from adding files to a folder.
 */
export function openAccess(
  path: string,
  { mode, uid }: Stats,
  ownUid = process.geteuid?.(),
  otherwise = 'move it away',
): OpenAccess | undefined {
  if ((mode & 0o022) !== 0) {
    const who = (mode & 0o002) === 0 ? 'its group' : 'everybody';
    return { message: `${path} can be written by ${who}`, remedy: `run chmod go-w ${path}` };
  }
  if (uid === 0 || uid === ownUid) return undefined;
  const remedy = `if you made it, run chown root ${path}; otherwise ${otherwise}`;
  return { message: `${path} belongs to user ${uid}`, remedy };
}

/** statfs(2). */
const FUSE = 0x65735546;
const FILES_AT_ONCE = 16;

/**
 * Brings a folder with all files and names in it to the disk. syncfs(2), by sync(1), takes a
 * fraction of the time of an fsync(2) for each of thousands of small files. Each is synced on its
 * own:
 * - before Linux 5.8, where syncfs(2) does not report failed writes (syncfs(2), "VERSIONS");
 * - on FUSE, where most filesystems do not get it;
 * - without sync(1), or its `-f`.
 * @throws unchanged system errors; Error when the disk fails
 */
export async function syncTree(folder: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (hasCarefulSyncfs(release()) && (await statfs(folder)).type !== FUSE && (await syncFilesystem(folder, signal))) {
    return;
  }
  await syncEach(folder, signal);
}

/** Files first, then folders, from the innermost on. @throws unchanged system errors */
export async function syncEach(folder: string, signal: AbortSignal): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  await forEachLimited(files, FILES_AT_ONCE, signal, async ({ parentPath, name }, stopped) => {
    stopped.throwIfAborted();
    await syncFile(join(parentPath, name));
  });
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ parentPath, name }) => join(parentPath, name));
  for (const path of folders.sort((a, b) => b.length - a.length)) await syncFolderIfPossible(path);
  await syncFolderIfPossible(folder);
}

/** Takes a release such as `5.10.0-28-amd64`. */
export function hasCarefulSyncfs(kernel: string): boolean {
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  return major > 5 || (major === 5 && minor >= 8);
}

/** @returns false when sync(1) is missing or fails: the sync of each file then has the reason */
async function syncFilesystem(folder: string, signal: AbortSignal): Promise<boolean> {
  return (await untilAborted(runSync(['-f', folder], signal), signal)) === undefined;
}

const MAX_FAULT = 1_000;

/**
 * sync(1). Resolves when the process has ended, which an abort requests and the kernel may delay.
 * @returns why it failed
 */
export function runSync(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn('sync', args, { stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' });
    let fault = '';
    child.stderr.on('data', (chunk: Buffer) => {
      fault = `${fault}${chunk.toString('utf8')}`.slice(0, MAX_FAULT);
    });
    child.on('error', (error) => child.pid !== undefined || resolve(reasonOf(error)));
    child.on('close', (code) => resolve(code === 0 ? undefined : fault.trim() || `exit code ${code}`));
  });
}
