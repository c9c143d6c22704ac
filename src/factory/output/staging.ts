import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
} from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import { hexOf } from '../../domain/model/digest.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { succeeds } from '../../platform/async/concurrency.ts';
import { digestOf } from '../../platform/digest.ts';
import { syncFolderIfPossible } from '../../platform/files/durable-file.ts';
import { syncTree } from '../../platform/files/file-access.ts';
import { formatBytes } from '../../platform/sizes.ts';

/**
 * All or nothing: `build` fills a hidden directory beside `target`, which is synced and renamed.
 * Unfinished work of a killed process for the same target is removed.
 *
 * @throws AppError `bundle/target` when `target` is not empty, a link or a mount point, can't be
 *   written, or another process writes it; `bundle/no-space` (`wait`); errors of `build`
 */
export async function buildDirectory<T>(
  target: string,
  build: (staging: string) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return buildBeside(target, refuseOccupied, (staging) => filled(staging, build, signal));
}

/**
 * {@link buildDirectory}, but `build` finds the files of an earlier run that ended early, whose
 * bytes may not have reached the disk. Only an AppError `reject` removes everything.
 */
export async function resumeDirectory<T>(
  target: string,
  build: (staging: string) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return buildBeside(target, refuseOccupied, (staging) => filled(staging, build, signal), true);
}

async function filled<T>(
  staging: string,
  build: (staging: string) => Promise<T>,
  signal: AbortSignal,
): Promise<BuiltFile<T>> {
  const built = await build(staging);
  // mkdtemp(3) grants access to no other user; files in it follow the umask.
  await chmod(staging, 0o777 & ~process.umask());
  await syncTree(staging, signal);
  return { path: staging, built };
}

interface BuiltFile<T> {
  readonly path: string;
  readonly built: T;
}

/**
 * `build` makes the file anywhere in the hidden directory and returns its path.
 *
 * @throws AppError as {@link buildDirectory}; `bundle/target` when `target` exists
 */
export async function buildFile<T>(target: string, build: (staging: string) => Promise<BuiltFile<T>>): Promise<T> {
  return buildBeside(target, refuseExisting, build);
}

/** Early, as {@link buildDirectory} or {@link buildFile}. @throws AppError `bundle/target` */
export async function checkTarget(target: string, kind: 'directory' | 'file'): Promise<void> {
  const refuse = kind === 'file' ? refuseExisting : refuseOccupied;
  await refuse(resolve(target)).catch((error: unknown) => {
    throw targetError(target, error);
  });
}

async function buildBeside<T>(
  target: string,
  refuse: (path: string) => Promise<void>,
  build: (staging: string) => Promise<BuiltFile<T>>,
  resumes = false,
): Promise<T> {
  const path = resolve(target);
  let staging: string | undefined;
  let isDone = false;
  let isLeft = false;
  let madeParent: string | undefined;
  try {
    madeParent = await mkdir(dirname(path), { recursive: true });
    await refuse(path);
    // Created before the search for others, so that of two processes that start together at least
    // one sees the other.
    staging = await mkdtemp(await stagingPrefix(path));
    await removeStale(path, resumes ? staging : undefined);
    const { path: made, built } = await build(staging);
    // Checked again: building may have taken an hour.
    await refuse(path);
    await rename(made, path);
    isDone = true;
    await syncFolderIfPossible(dirname(path));
    return built;
  } catch (error) {
    const fault = targetError(path, error, resumes);
    isLeft = resumes && !(fault instanceof AppError && fault.disposition === 'reject');
    throw fault;
  } finally {
    // If the directory itself was renamed, nothing remains.
    if (staging !== undefined && !isLeft) await rm(staging, { recursive: true, force: true });
    if (!isDone && !isLeft && madeParent !== undefined) await removeEmpty(dirname(path), madeParent);
  }
}

/** Gives `act` a hidden folder beside `target`, and removes it. @throws errors of `act` */
export async function inFolderBeside<T>(target: string, act: (folder: string) => Promise<T>): Promise<T> {
  const path = resolve(target);
  const made = await mkdir(dirname(path), { recursive: true });
  const folder = await mkdtemp(await stagingPrefix(path));
  try {
    await removeStale(path);
    return await act(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
    if (made !== undefined) await removeEmpty(dirname(path), made);
  }
}

async function removeEmpty(from: string, to: string): Promise<void> {
  for (let path = from; path.length >= to.length; path = dirname(path)) {
    if (!(await succeeds(rmdir(path)))) return;
  }
}

/** @throws AppError `bundle/no-space` (`wait`) */
export async function checkSpace(directory: string, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  const freeBytes = bavail * bsize;
  if (freeBytes >= neededBytes) return;
  const message = `not enough space in ${directory}: the bundle needs ${formatBytes(neededBytes)}, ${formatBytes(freeBytes)} are free`;
  throw bundleError('bundle/no-space', message);
}

/** Atomic and synced. @throws AppError `bundle/target`, `bundle/no-space`; errors of `write` */
export async function replaceOutput(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${await stagingPrefix(resolve(path))}staged`;
  try {
    await rm(temporary, { force: true });
    await removeStale(resolve(path));
    await write(temporary);
    await rename(temporary, path);
    await syncFolderIfPossible(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true });
    throw targetError(path, error);
  }
}

async function refuseExisting(path: string): Promise<void> {
  try {
    await lstat(path);
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    throw error;
  }
  throw bundleError('bundle/target', `${path} exists already: choose another name or remove it`);
}

async function refuseOccupied(path: string): Promise<void> {
  try {
    if ((await lstat(path)).isSymbolicLink()) {
      throw bundleError('bundle/target', `${path} is a link: name its target`);
    }
    const isEmpty = (await readdir(path)).length === 0;
    if (isEmpty && (await stat(path)).dev === (await stat(dirname(path))).dev) return;
    if (isEmpty) {
      const message = `${path} is a mount point, which can't be replaced: name a directory below it, on a stick stickpin/NAME-VERSION-ARCH`;
      throw bundleError('bundle/target', message);
    }
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    if (systemCodeOf(error) !== 'ENOTDIR') throw error;
  }
  const message = `${path} exists already and is not an empty directory: choose another name or remove it`;
  throw bundleError('bundle/target', message);
}

function targetError(path: string, error: unknown, isLeft = false): unknown {
  const code = systemCodeOf(error);
  if (error instanceof AppError || code === undefined) return error;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const note = isLeft ? 'the next try goes on here' : 'nothing was left behind';
    const message = `no space left while writing ${path}: free some, or choose another place; ${note}`;
    return bundleError('bundle/no-space', message, { cause: error });
  }
  if (code === 'ABORT_ERR') return error;
  if (code === 'EFBIG') {
    const message = `${path} would be larger than its filesystem allows: make a directory instead of a tar, or use exFAT or ext4`;
    return bundleError('bundle/target', message, { cause: error });
  }
  const reason = reasonOf(error).replace(/ '[^']*\.partial-.*'\)$/s, ')');
  return bundleError('bundle/target', `${path} can't be written: ${reason}`, { cause: error });
}

/** The owner of a hidden directory: shows later whether its process still runs. */
interface Owner {
  /** The machine and its PID namespace; 8 hex digits. */
  readonly host: string;
  /** The boot; 8 hex digits. */
  readonly boot: string;
  readonly pid: number;
  /** Clock ticks since boot (proc(5), `starttime`); 0 where unknown. */
  readonly startedAt: number;
}

/** `.NAME.partial-HOST-BOOT-PID-START-`: hidden, so that no program takes it for a bundle. */
export async function stagingPrefix(path: string): Promise<string> {
  const { host, boot, pid, startedAt } = await thisProcess();
  return join(dirname(path), `.${basename(path)}.partial-${host}-${boot}-${pid}-${startedAt}-`);
}

/**
 * Unfinished work of killed processes goes; that of other machines and of this process stays.
 *
 * @param heir an empty folder that becomes the first one
 * @throws AppError `bundle/target` when another process is writing it; system errors
 */
async function removeStale(path: string, heir?: string): Promise<void> {
  const folder = dirname(path);
  const me = await thisProcess();
  const stalePaths: string[] = [];
  for (const name of await readdir(folder)) {
    const owner = ownerOf(name, basename(path));
    const stale = join(folder, name);
    // A link with such a name is not ours.
    if (owner === undefined || owner.host !== me.host || stale === heir || (await isLinkOrGone(stale))) continue;
    const isMine = owner.pid === me.pid;
    if (!(await isAlive(owner, me)) || (isMine && heir !== undefined)) stalePaths.push(stale);
    else if (!isMine) {
      throw bundleError('bundle/target', `${path} is being written by process ${owner.pid}: wait until that has ended`);
    }
  }
  for (const stale of stalePaths) {
    if (heir === undefined || !(await succeeds(rename(stale, heir)))) await rm(stale, { recursive: true, force: true });
  }
}

/**
 * {@link removeStale} in a folder of many users: files of other users and of running processes
 * stay. Nothing is reported.
 */
export async function removeOwnStale(path: string): Promise<void> {
  const folder = dirname(path);
  const me = await thisProcess();
  for (const name of await readdir(folder).catch(() => [])) {
    const owner = ownerOf(name, basename(path));
    if (owner === undefined || owner.host !== me.host || (await isAlive(owner, me))) continue;
    const stale = join(folder, name);
    const found = await lstat(stale).catch(() => undefined);
    if (found?.isDirectory() !== true || found.uid !== process.geteuid?.()) continue;
    await succeeds(rm(stale, { recursive: true, force: true }));
  }
}

async function isLinkOrGone(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isSymbolicLink(),
    (error: unknown) => {
      if (systemCodeOf(error) === 'ENOENT') return true;
      throw error;
    },
  );
}

function ownerOf(name: string, target: string): Owner | undefined {
  const start = `.${target}.partial-`;
  if (!name.startsWith(start)) return undefined;
  const parts = /^([0-9a-f]{8})-([0-9a-f]{8})-([1-9][0-9]{0,9})-([0-9]{1,15})-[A-Za-z0-9]{6}$/.exec(
    name.slice(start.length),
  );
  const [, host, boot, pid, startedAt] = parts ?? [];
  if (host === undefined || boot === undefined) return undefined;
  return { host, boot, pid: Number(pid), startedAt: Number(startedAt) };
}

async function isAlive(owner: Owner, me: Owner): Promise<boolean> {
  if (owner.boot !== me.boot) return false;
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code !== 'ESRCH';
  }
  // Process ids are reused.
  return (await startOf(owner.pid)) === owner.startedAt;
}

async function thisProcess(): Promise<Owner> {
  const machine = await textOf('/etc/machine-id');
  const names = await readlink('/proc/self/ns/pid').catch(() => '');
  return {
    host: shortHash(`${machine || hostname()} ${names}`),
    boot: shortHash(await textOf('/proc/sys/kernel/random/boot_id')),
    pid: process.pid,
    startedAt: await startOf(process.pid),
  };
}

/** Field 22 of `/proc/PID/stat`; the second one, the command in parentheses, may hold anything. */
async function startOf(pid: number): Promise<number> {
  const stat = await textOf(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? 0);
}

async function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

function shortHash(text: string): string {
  return hexOf(digestOf(text)).slice(0, 8);
}
